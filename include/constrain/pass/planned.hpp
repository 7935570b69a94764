#pragma once

#include "constrain/device/kernel.hpp"
#include "constrain/pass/lower.hpp"
#include "constrain/pass/memory_planning.hpp"
#include "constrain/pass/refusals.hpp"
#include "constrain/pass/verify.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The index of the first parameter or setting of `p` after value `v`; the number of values if there is none.
constexpr int next_shared(program const& p, int v) {
  do ++v;
  while (v < p.values.size() && !is_parameter(p.values[v].role) && p.values[v].role != role::setting);
  return v;
}

/// The value of `step` that holds the parameter or setting `info` of another entry; the number of values if there is
/// none. For a parameter, this is the first parameter of `step` after value `previous`, and `previous` becomes its
/// index. For a setting, this is the setting with the same name, because a policy's pass may add settings to all
/// entries after an objective has added some to `step`.
constexpr int find_shared(program const& step, value_info const& info, int& previous) {
  bool const is_setting = info.role == role::setting;
  int v = is_setting ? 0 : previous + 1;
  auto const matches = [&](value_info const& candidate) {
    return is_setting ? candidate.role == role::setting && candidate.name.hash == info.name.hash
                      : is_parameter(candidate.role);
  };
  while (v < step.values.size() && !matches(step.values[v])) ++v;
  return is_setting ? v : previous = v;
}

/// The value of `p` that holds the kept copy of a parameter; the number of values if there is none.
constexpr int kept_copy_of(program const& p, int parameter) {
  int v = 0;
  while (v < p.values.size() && !(p.values[v].role == role::kept_copy && p.values[v].belongs_to == parameter)) ++v;
  return v;
}

/// Whether the parameters of `step` begin with the parameters of `p` (same order, names, types, shapes and extents of
/// the axes), and `step` has all settings of `p`, so that `p` can use the buffers of `step` for them. `step` may have
/// more parameters at the end, such as the parameters of an objective, and more settings. `p`: a program without
/// gradients.
constexpr bool shares_persistent_values(program const& p, program const& step) {
  int parameter = -1; // index of the last parameter found in `step`
  for (int v = next_shared(p, -1); v < p.values.size(); v = next_shared(p, v)) {
    auto const& info = p.values[v];
    int const in_step = find_shared(step, info, parameter);
    if (in_step >= step.values.size()) return false;
    auto const& step_info = step.values[in_step];
    if (step_info.name.hash != info.name.hash || step_info.type != info.type || step_info.shape != info.shape ||
        step_info.axes.size() != info.axes.size())
      return false;
    for (int k = 0; k < info.axes.size(); ++k)
      if (step.axes[step_info.axes[k]].extent != p.axes[info.axes[k]].extent) return false;
  }
  return true;
}

/// Moves each parameter, setting and kept copy of `p` to its offset in `step`, except that a parameter with an average
/// in `step` moves to the offset of the average, so that the ops of `p` read the average. Without this move, the
/// settings would have other offsets if `p` has fewer parameters. `p` and `step`: programs for which
/// `shares_persistent_values` is true. `memory` and `step_memory`: their memory layouts.
constexpr void share_persistent_values(memory_layout& memory, program const& p, program const& step,
                                       memory_layout const& step_memory) {
  int source[program::maximum_values]{}; // of `step`, by index of the value: its average, or the value itself
  for (int v = 0; v < step.values.size(); ++v) source[v] = v;
  for (int v = 0; v < step.values.size(); ++v)
    if (step.values[v].is_average) source[step.values[v].belongs_to] = v;
  int parameter = -1;                     // index of the last parameter found in `step`
  int in_step[program::maximum_values]{}; // by index of the parameter or setting
  for (int v = next_shared(p, -1); v < p.values.size(); v = next_shared(p, v)) {
    in_step[v] = find_shared(step, p.values[v], parameter);
    memory.buffers[v].offset = step_memory.buffers[source[in_step[v]]].offset;
  }
  for (int v = 0; v < p.values.size(); ++v)
    if (p.values[v].role == role::kept_copy)
      memory.buffers[v].offset = step_memory.buffers[kept_copy_of(step, in_step[p.values[v].belongs_to])].offset;
}

/// The first error of a program; `why::nothing` if there is none. `step`: see `planned`.
template <class passes, class step> constexpr diagnosis failure_of_entry() {
  if (!passes::final.failure.ok()) return passes::final.failure;
  if constexpr (!std::is_void_v<step>)
    if (step::final.failure.ok() && !shares_persistent_values(passes::final, step::final))
      return diagnosis_with<refusals::entries_differ>();
  return verify(passes::final);
}

/// The memory layout of a program. `step`: see `planned`. `is_sound`: whether the program is not refused. `alignment`:
/// the alignment of the device's buffers, in bytes.
template <class passes, class step> constexpr memory_layout layout_of_entry(bool is_sound, std::int64_t alignment) {
  if constexpr (std::is_void_v<step>) return plan_memory(passes::final, 0, alignment);
  else {
    auto memory = plan_memory(passes::final, step::where.persistent_end, alignment);
    if (is_sound && step::failure.ok()) share_persistent_values(memory, passes::final, step::final, step::where);
    return memory;
  }
}

} // namespace detail

/// The plan of `passes::final`, a program after all its passes. `step`: the plan whose persistent values this plan
/// shares, at the same offsets, except that a parameter with an average (`optimizer::averaged`) is read from the
/// average. In a trainer, `step` is the plan of the step program; in an inference object, the plan of `evaluate`. For
/// these two plans themselves, and for the plan of `casts_passes`, `step` is void. `device`: the kernel tag of the
/// device that holds the buffers.
template <class passes, class step = void, class device = cpu> struct planned {
  using before = step;                                // the plan whose persistent values this plan shares, or void
  static constexpr auto const& final = passes::final; // the program
  /// The first error of the program; `why::nothing` if there is none.
  static constexpr diagnosis failure = detail::failure_of_entry<passes, step>();
  /// Whether the program has an average of any parameter (`update_rule::average`).
  static constexpr bool keeps_averages = [] {
    for (auto const& info : final.values)
      if (info.is_average) return true;
    return false;
  }();
  /// The buffers of the program's values.
  static constexpr memory_layout where = detail::layout_of_entry<passes, step>(failure.ok(), device::alignment);
  /// The number of the plan's steps: kernel calls, and beginnings and ends of loops. 0 for a refused program, so that
  /// the refusal is the only error.
  static constexpr int steps = failure.ok() ? final.nodes.count : 0;
  /// The plan: the table that the executor runs.
  static constexpr auto value = lower < steps, steps == 0 ? 0 : count_operands(final) > (final, where);
};

} // namespace constrain
