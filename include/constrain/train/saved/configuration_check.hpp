#pragma once

#include "constrain/io/json.hpp"
#include "constrain/model/weight_format.hpp"

#include <span>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Throws `error`, which names the field and both values, if a field of saved data (`saved`) differs from the same
/// field of the loading object (`expected`). `directory`: the path of the data, for the error. `loader`: the loading
/// object with its article, as the error names it.
void check_field(std::string const& directory, std::string const& field, std::string const& saved,
                 std::string const& expected, std::string_view loader = "a trainer");

/// The comparison of a config.json with the model's configuration.
struct configuration_check {
  std::string const& directory;                 // as in `check_field`
  std::string_view loader;                      // as in `check_field`
  std::span<std::string_view const> required{}; // keys that the file must have
  std::span<std::string_view const> skipped{};  // top-level keys that are not compared

  /// Throws `error` if the configuration objects `saved` and `expected` have different values in a field that both
  /// have. Skips the top-level keys in `skipped`, fields that are null in either object, and arrays in `expected`.
  /// `prefix`: the text before a field's name in the error; empty at the top level.
  [[gnu::cold]] void members(io::json const& saved, io::json const& expected, std::string const& prefix = "") const;
  /// Like `members`, for the field `name`, whose value in `expected` is `value`.
  [[gnu::cold]] void member(io::json const& saved, std::string_view name, io::json const& value,
                            std::string const& prefix = "") const;
};

/// Throws `error` if the config.json of a directory lacks a key in `check.required` or contradicts the model's
/// configuration. `text`, `file`: content and path of the config.json. `format`: the model's.
[[gnu::cold]] void check_configuration(configuration_check const& check, std::string_view text, std::string const& file,
                                       weight_format const& format);

} // namespace constrain::detail

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/saved/configuration_check.ipp"
#endif
