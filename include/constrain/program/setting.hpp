#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// A setting that the library makes. No setting of a model has its name.
struct library_setting {
  std::string_view name; // of the setting
  number_range range;    // of the values that `trainer::set` takes
};

inline constexpr library_setting dropout_setting{"dropout", number_range::below_one};
inline constexpr library_setting clip_norm_setting{"clip_norm", number_range::from_zero};
/// The loss is multiplied by it before the backward pass.
inline constexpr library_setting loss_scale_setting{"loss_scale", number_range::finite};
/// The number of steps since the loss scale has changed.
inline constexpr library_setting loss_scale_steps_setting{"loss_scale_steps", number_range::finite};

/// The library's setting of this name; null if the library has none.
constexpr library_setting const* find_library_setting(std::string_view name) {
  for (auto const* known : {&dropout_setting, &clip_norm_setting, &loss_scale_setting, &loss_scale_steps_setting})
    if (known->name == name) return known;
  return nullptr;
}

/// `ct::setting` for names that are the library's, too.
constexpr value any_setting(value like, std::string_view name, double initial, int line) {
  auto& owner = like.owner();
  auto& program = owner.program;
  if (!program.failure.ok()) return like;
  for (int v = 0; v < program.values.size(); ++v)
    if (program.values[v].role == role::setting && program.text(program.values[v].name) == name)
      return {owner, {v, at::current}};
  value_info info;
  info.type = dtype::f64;
  info.role = role::setting;
  info.initial.constant = initial;
  info.line = line;
  info.name = program.names.add("", name);
  if (info.name.length == 0)
    program.fail({why::program_too_large, line, owner.called_from, name_pool::capacity, name_pool::capacity + 1});
  return {owner, {program.add_value(info), at::current}};
}

/// For ops and passes of the library: a setting of its own, which the trainer sets at construction.
constexpr value setting_of(value like, library_setting const& which) { return any_setting(like, which.name, 0, 0); }

} // namespace detail

/// A number that ops read at run time, fp64, a scalar: for example the strength of a noise. It begins as `initial`, is
/// changed by `trainer::set(name, x)` between steps, and is saved and resumed. `like`: any value of the model. All
/// calls with one name give the same setting; the first call gives the initial value. Scopes do not prefix the name.
/// Refused: the names of the library's own settings, and more names than the program holds.
constexpr value setting(value like, std::string_view name, double initial, int line = __builtin_LINE()) {
  if (detail::find_library_setting(name) != nullptr)
    like.owner().program.fail({why::setting_is_taken, line, like.owner().called_from});
  return detail::any_setting(like, name, initial, line);
}

} // namespace constrain
