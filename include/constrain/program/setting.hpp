#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/program/refusal.hpp"
#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace refusals {

/// A setting of the model has the same name as one of the library's settings.
template <diagnosis d> struct setting_is_taken {
  static_assert(d.ok(), "the model has a setting named dropout, clip_norm, inverse_label_count, loss_scale or "
                        "loss_scale_steps, which is the name of a library setting; give the model's setting another "
                        "name");
};

/// A setting of the model has no name.
template <diagnosis d> struct setting_without_a_name {
  static_assert(d.ok(), "ct::setting: the name is empty; give the setting the name by which trainer::set changes it");
};

/// The initial value of a setting is not finite.
template <diagnosis d> struct setting_is_not_finite {
  static_assert(d.ok(), "ct::setting: the initial value is not finite; give a finite number, for example 0");
};

} // namespace refusals

namespace detail {

/// The properties of a setting.
struct setting_spec {
  std::string_view name;                     // unique in a program
  number_range range = number_range::finite; // of its values
  // whether the library writes the value before each step and each evaluated micro-batch; if so, `set` refuses the
  // setting, and the value is not saved
  bool per_run = false;
};

// The library's settings. A model's setting must not have one of these names.

/// The probability with which dropout zeroes an element.
inline constexpr setting_spec dropout_setting{"dropout", number_range::below_one};
/// The maximum L2 norm of all gradients together; 0: no clipping.
inline constexpr setting_spec clip_norm_setting{"clip_norm", number_range::from_zero};
/// 1 / the number of valid labels (see `constrain::inverse_label_count`).
inline constexpr setting_spec inverse_label_count_setting{.name = "inverse_label_count", .per_run = true};
/// Multiplies the loss before the backward pass.
inline constexpr setting_spec loss_scale_setting{"loss_scale", number_range::loss_scale};
/// The number of optimizer steps since the last increase of the loss scale or the last skipped step.
inline constexpr setting_spec loss_scale_steps_setting{"loss_scale_steps", number_range::from_zero};

/// The library's setting with this name; null if there is none.
constexpr setting_spec const* find_library_setting(std::string_view name) {
  for (auto const* setting : {&dropout_setting, &clip_norm_setting, &inverse_label_count_setting, &loss_scale_setting,
                              &loss_scale_steps_setting})
    if (setting->name == name) return setting;
  return nullptr;
}

/// The range of values of the setting with this name. Settings of a model may have any finite value.
constexpr number_range range_of_setting(std::string_view name) {
  auto const* const setting = find_library_setting(name);
  return setting != nullptr ? setting->range : number_range::finite;
}

/// The setting `spec` of the program of `like`. The first call creates the setting, with the value `initial`. Returns
/// `like` if the program is refused.
constexpr value setting_of(value like, setting_spec const& spec, double initial = 0, int line = 0) {
  auto& owner = like.owner();
  auto& program = owner.program;
  if (!program.failure.ok()) return like;
  for (int v = 0; v < program.values.size(); ++v)
    if (auto const& info = program.values[v];
        (info.role == role::setting || info.per_run) && program.text(info.name) == spec.name)
      return {owner, {v, at::current}};
  value_info info;
  info.type = dtype::f64;
  info.role = spec.per_run ? role::input : role::setting;
  info.per_run = spec.per_run;
  info.initial.constant = initial;
  info.line = line;
  info.name = program.names.add("", spec.name);
  if (info.name.length == 0)
    program.fail({why::program_too_large, line, owner.called_from, name_pool::capacity, name_pool::capacity + 1});
  return {owner, {program.add_value(info), at::current}};
}

} // namespace detail

/// A scalar in fp64 that ops read at run time, for example a noise level. Its first value is `initial`.
/// `trainer::set(name, x)` changes it between steps, and a saved run contains it. `like`: any value of the model. All
/// calls with the same name return the same setting; the first call decides the initial value. Scopes do not prefix the
/// name. Refused: a name that is empty or not UTF-8, an initial value that is not finite, the names of the library's
/// settings, and more names or values than the program can hold.
constexpr value setting(value like, std::string_view name, double initial, int line = __builtin_LINE()) {
  if (name.empty())
    like.owner().program.fail(diagnosis_with<refusals::setting_without_a_name>(line, like.owner().called_from));
  like.owner().check_name(name, line);
  if (detail::find_library_setting(name) != nullptr)
    like.owner().program.fail(diagnosis_with<refusals::setting_is_taken>(line, like.owner().called_from));
  if (!detail::is_finite(initial))
    like.owner().program.fail(diagnosis_with<refusals::setting_is_not_finite>(line, like.owner().called_from));
  return detail::setting_of(like, {name}, initial, line);
}

/// 1 / the number of valid labels: a scalar in fp64, for ops that average over labels. Only the objective's first label
/// array counts. An integer label is valid unless it is `ignored_label`; every floating-point label is valid. In a
/// step, the labels of all micro-batches on all ranks count, but the labels of a tensor group only once; in an
/// evaluation, the labels of one micro-batch. The number is never 0: a step without valid labels throws `error`. An
/// evaluation skips a micro-batch without valid labels or, if several ranks hold a tensor together, runs it with the
/// value 1 and ignores its results. The library writes the value before each step and each evaluated micro-batch.
/// Refused: a model that uses the value; only an objective may. `like`: any value of the model.
constexpr value inverse_label_count(value like, int line = __builtin_LINE()) {
  return detail::setting_of(like, detail::inverse_label_count_setting, 0, line);
}

} // namespace constrain
