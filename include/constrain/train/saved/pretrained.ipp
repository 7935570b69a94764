#pragma once

#include "constrain/train/saved/pretrained.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/convert_reals.hpp"
#include "constrain/io/directory_reader.hpp"
#include "constrain/train/saved/saved_run.hpp"

#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A value of a configuration, as text for an error. `same_kind`: whether the value is compared with a value of the
/// same kind.
[[gnu::cold]] CONSTRAIN_INLINE std::string shown_value(io::json const& j, bool same_kind) {
  switch (j.kind()) {
  case io::json_kind::number: return concat({j.number()});
  case io::json_kind::string: return same_kind ? concat({j.string()}) : concat({"the text \"", j.string(), "\""});
  case io::json_kind::boolean: return j.boolean() ? "true" : "false";
  default: return "another kind of value";
  }
}

/// Throws `error` if the configuration objects `saved` and `here` have different values in a field that both have.
/// Skips fields that are null in either object, and arrays in `here`. `within`: what comes before a field's name in the
/// error. `directory`, `owner`: as in `check_field`.
[[gnu::cold]] CONSTRAIN_INLINE void check_members(std::string const& directory, io::json const& saved,
                                                  io::json const& here, std::string const& within,
                                                  std::string_view owner) {
  for (auto const& [name, value] : here.members()) {
    auto const other = saved.find(name);
    if (!other || other->is_null() || value.kind() == io::json_kind::array || value.is_null()) continue;
    bool const same_kind = other->kind() == value.kind();
    if (same_kind && value.kind() == io::json_kind::object) {
      check_members(directory, *other, value, concat({within, name, "."}), owner);
      continue;
    }
    auto const text = [&](io::json const& j) { return shown_value(j, same_kind); };
    // Numbers are compared by value: 1e-05 equals 0.00001.
    bool const numbers = same_kind && value.kind() == io::json_kind::number;
    if (!numbers || other->real() != value.real())
      check_field(directory, concat({within, name}), text(*other), text(value), owner);
  }
}

/// Throws `error` if a saved config.json lacks one of the `required_keys`, or if `check_members` finds that it
/// contradicts the model's configuration (`here`).
[[gnu::cold]] CONSTRAIN_INLINE void check_model(std::string const& directory, io::json const& saved,
                                                io::json const& here, std::span<std::string_view const> required_keys,
                                                std::string_view owner) {
  for (auto const& name : required_keys)
    if (auto const found = saved.find(name); !found || found->is_null())
      throw error({"the configuration '", directory, "/", configuration_file, "' has no ", name,
                   "; use the file that was saved with the weights"});
  check_members(directory, saved, here, "", owner);
}

/// The tensor called `name`, or `name` without the format's prefix (GPT-2 files exist with and without "transformer."),
/// or one of these names with another suffix; null if there is none.
[[gnu::cold]] CONSTRAIN_INLINE io::tensor const* find_stored(io::safetensors const& file, std::string_view name,
                                                             weight_format const& format) {
  auto const find = [&](std::string_view one) {
    auto const* const found = file.find(one);
    return found == nullptr && one.starts_with(format.prefix) ? file.find(one.substr(format.prefix.size())) : found;
  };
  auto const* found = find(name);
  for (auto const& [suffix, other] : format.other_suffixes)
    if (found == nullptr && name.ends_with(suffix))
      found = find(concat({name.substr(0, name.size() - suffix.size()), other}));
  return found;
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void load_pretrained(std::string const& path, parameter_list const& list,
                                                    weight_format const& format, arena& memory, communicator& group,
                                                    agreement& ranks) {
  auto file = path;
  if (io::directory_names(path)) {
    file = concat({path, "/", weights_file});
    if (io::detail::exists(concat({path, "/", io::manifest_name}))) io::directory_reader{path}; // checks all CRCs
    if (!io::detail::exists(file))
      throw error({"the directory '", path, "' has no ", weights_file, "; save the model there as safetensors"});
    auto const configuration = concat({path, "/", configuration_file});
    if (!format.configuration.empty() && io::detail::exists(configuration)) {
      io::mapped_file const text(configuration, "the configuration");
      auto const saved = io::json::parse(text.text(), configuration);
      detail::check_model(path, saved, io::json::parse(format.configuration), format.required_keys, list.owner);
      if (format.standard_of != nullptr)
        detail::check_members(path, io::json::parse(format.standard_of(saved)), io::json::parse(format.standard), "",
                              list.owner);
    }
  }
  auto const opened = io::safetensors_file::open(file);
  auto const& saved = opened.contents();
  auto const wanted = weight_tensors(list, format.names);
  std::vector<io::tensor const*> found;
  for (auto const& w : wanted) {
    auto const* const t = detail::find_stored(saved, w.tensor.name, format);
    if (t == nullptr)
      throw error(
          {"the weights '", path, "' have no tensor '", w.tensor.name, "'; load the weights of the same model"});
    detail::check_field(path, concat({"shape of '", t->name, "'"}), detail::shape_text(t->shape),
                        detail::shape_text(w.tensor.shape), list.owner);
    if (!io::real_dtype(t->dtype))
      throw error(
          {"the weights '", path, "' have '", t->name, "' as ", t->dtype, "; save it as F64, F32, BF16 or F16"});
    found.push_back(t);
  }
  for (auto const& t : saved.tensors) {
    bool known = false;
    for (auto const* f : found) known = known || f == &t;
    for (auto end : format.ignored_suffixes) known = known || t.name.ends_with(end);
    if (!known)
      throw error({"the weights '", path, "' have a tensor '", t.name,
                   "' that the model does not have; load the weights of the same model"});
  }
  ranks.all_can();
  std::vector<std::byte> converted;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    auto const& w = wanted[i];
    auto bytes = found[i]->bytes;
    if (found[i]->dtype != w.tensor.dtype) {
      converted.resize(w.bytes());
      convert_reals(*io::real_dtype(found[i]->dtype), bytes.data(), w.info->type, converted.data(),
                    static_cast<std::int64_t>(w.bytes()) / size_of(w.info->type));
      bytes = {std::as_const(converted).data(), converted.size()};
    }
    take_tensor(w, bytes, memory, group);
  }
}

[[gnu::cold]] CONSTRAIN_INLINE void load_pretrained(std::string const& path, parameter_list const& list,
                                                    weight_format const& format, arena& memory, communicator& world,
                                                    communicator& group) {
  agreement(world, joint_call::pretrained).run([&](agreement& ranks) {
    load_pretrained(path, list, format, memory, group, ranks);
  });
}

} // namespace constrain
