#pragma once

#include "constrain/train/saved/configuration_check.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"

#include <algorithm>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE void check_field(std::string const& directory, std::string const& field,
                                                std::string const& saved, std::string const& expected,
                                                std::string_view loader) {
  auto const noun = loader.substr(loader.find(' ') + 1); // `loader` without the article
  if (saved != expected)
    throw error({"'", directory, "' does not match the ", noun, ": its ", field, " is ", saved, ", the ", noun,
                 "'s is ", expected, "; load it into ", loader, " with the same ", field});
}

/// A value of a configuration, as text for an error. `same_kind`: whether the value is compared with a value of the
/// same kind.
[[gnu::cold]] CONSTRAIN_INLINE std::string shown_value(io::json const& j, bool same_kind) {
  switch (j.kind()) {
  case io::json_kind::number: return concat({j.number()});
  case io::json_kind::string: return same_kind ? concat({j.string()}) : concat({"the text \"", j.string(), "\""});
  case io::json_kind::boolean: return j.boolean() ? "true" : "false";
  case io::json_kind::array: return "an array";
  default: return "an object"; // null values are not compared
  }
}

/// Whether two numbers have the same value: exactly if both are written with neither a decimal point nor an exponent,
/// otherwise (1e-05 and 0.00001, 4 and 4.0) rounded to double.
[[gnu::cold]] CONSTRAIN_INLINE bool same_number(io::json const& a, io::json const& b) {
  auto const digits = [](io::json const& j) { return j.number() == "-0" ? "0" : j.number(); };
  auto const is_integer = [](io::json const& j) { return j.number().find_first_of(".eE") == std::string_view::npos; };
  return is_integer(a) && is_integer(b) ? digits(a) == digits(b) : a.real() == b.real();
}

[[gnu::cold]] CONSTRAIN_INLINE void configuration_check::members(io::json const& saved, io::json const& expected,
                                                                 std::string const& prefix) const {
  for (auto const& [name, value] : expected.members())
    if (!prefix.empty() || std::find(skipped.begin(), skipped.end(), name) == skipped.end())
      member(saved, name, value, prefix);
}

[[gnu::cold]] CONSTRAIN_INLINE void configuration_check::member(io::json const& saved, std::string_view name,
                                                                io::json const& value,
                                                                std::string const& prefix) const {
  auto const saved_value = saved.find(name);
  if (!saved_value || saved_value->is_null() || value.kind() == io::json_kind::array || value.is_null()) return;
  bool const same_kind = saved_value->kind() == value.kind();
  if (same_kind && value.kind() == io::json_kind::object)
    return members(*saved_value, value, concat({prefix, name, "."}));
  auto const text = [&](io::json const& j) { return shown_value(j, same_kind); };
  bool const are_numbers = same_kind && value.kind() == io::json_kind::number;
  if (!are_numbers || !same_number(*saved_value, value))
    check_field(directory, concat({prefix, name}), text(*saved_value), text(value), loader);
}

[[gnu::cold]] CONSTRAIN_INLINE void check_configuration(configuration_check const& check, std::string_view text,
                                                        std::string const& file, weight_format const& format) {
  auto const saved = io::json::parse(text, file);
  // A value may have another name in the file; the result of `normalize` has it under the name that the format uses.
  auto const normalized_saved = io::json::parse(format.normalize == nullptr ? "{}" : format.normalize(saved),
                                                "the result of weight_format::normalize");
  for (auto const& name : check.required)
    if (auto const member = saved.find(name); (!member || member->is_null()) && !normalized_saved.value(name))
      throw error({"the configuration '", file, "' has no value for '", name,
                   "'; use the file that was saved with the weights"});
  auto const expected = io::json::parse(format.configuration, "weight_format::configuration");
  if (format.normalize == nullptr) return check.members(saved, expected);
  auto const normalized = io::json::parse(format.normalized, "weight_format::normalized");
  // If the format normalizes model_type, only the normalized value is compared, before all other values: a different
  // type of model explains the other differences.
  std::vector<std::string_view> skipped(check.skipped.begin(), check.skipped.end());
  if (auto const type = normalized.find("model_type")) {
    check.member(normalized_saved, "model_type", *type);
    skipped.push_back("model_type");
  }
  skipped.insert(skipped.end(), format.normalized_keys.begin(), format.normalized_keys.end());
  configuration_check{check.directory, check.loader, {}, skipped}.members(saved, expected);
  check.members(normalized_saved, normalized);
}

} // namespace constrain::detail
