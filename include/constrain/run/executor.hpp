#pragma once

#include "constrain/run/device_plan.hpp"
#include "constrain/run/launchers.hpp"

#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A view of a `plan` and of the kernels of its steps. Unlike the plan's type, this type does not depend on the plan's
/// size.
struct plan_view {
  step const* steps = nullptr;               // steps in order of execution; a loop has a begin and an end step
  int step_count = 0;                        // number of steps
  operand const* operands = nullptr;         // operands of all steps
  plan_axis const* axes = nullptr;           // axes, by axis index
  int micro_batches = -1;                    // axis of the micro-batch loop; -1: none
  launcher const* launchers = nullptr;       // the kernel of each step; null: begin or end step of a loop
  device_step const* device_steps = nullptr; // scratch memory and merged calls of each step; null: none
};

/// The view of the plan `planned_entry::value`. Compile-time error: a call without a kernel on `device`, or a kernel
/// with impossible needs (device_plan.hpp).
template <class planned_entry, class device> plan_view view_of() {
  auto const& plan = planned_entry::value;
  static_assert(sizeof(plan_has_kernels<planned_entry, device>) > 0);
  static_assert(sizeof(detail::needs_are_possible<device, planned_entry>) > 0);
  plan_view view{plan.steps, plan.steps_size, plan.operands, plan.axes, plan.micro_batches};
  view.launchers = launchers<planned_entry, device>.data();
  if constexpr (device_plan_of<planned_entry, device>.has_needs)
    view.device_steps = device_plan_of<planned_entry, device>.steps;
  return view;
}

/// The executor's loop state: for every axis (program/axis.hpp), the current index and the number of iterations.
struct loop_state {
  std::int64_t index[maximum_axes]{};  // current index of each axis
  std::int64_t extent[maximum_axes]{}; // iterations of each axis's current loop

  /// Sum of index * stride over `terms`.
  std::int64_t sum(index_terms const& terms) const {
    std::int64_t total = 0;
    for (auto const& term : terms) total += index[term.axis] * term.stride;
    return total;
  }
  /// Whether a loop is in the iteration that runs first: index 0, or the last index in a reversed loop.
  bool in_first_iteration(step const& loop) const {
    return loop.reversed ? index[loop.axis] == extent[loop.axis] - 1 : index[loop.axis] == 0;
  }
};

/// Executor hooks that do nothing. `execute` calls hooks before and after every kernel. See also `checked_hooks`.
struct no_hooks {
  /// `before` and `after` receive the step's index in the plan, the step, its bound operands (inputs, then outputs) and
  /// the loop state.
  void before(int, step const&, bound_operand const*, loop_state const&) {}
  void after(int, step const&, bound_operand const*, loop_state const&) {}
};

/// Whether calls may be merged into one launch of several tensors while these hooks are in use; true for `no_hooks`.
/// Only the last of the merged calls launches anything, so hooks that read outputs in `after` must not allow merging.
/// Hooks that allow it declare `static constexpr bool merges_calls = true`.
template <class hooks> inline constexpr bool merges_calls = std::is_same_v<hooks, no_hooks> || requires {
  requires hooks::merges_calls;
};

namespace detail {

/// The operand `o` at its address in the current iteration. `arena`: the arena's first byte.
inline bound_operand bind(operand const& o, std::byte* arena, loop_state const& loops) {
  auto address = o.offset + loops.sum(o.strides);
  if (o.position_stride != 0) {
    auto instance = o.position + loops.sum(o.position_factors);
    if (o.ring != 0) instance %= o.ring;
    address += instance * o.position_stride;
  }
  return {arena + address, &o.shape, o.count, o.row_stride};
}

/// The iterations of an axis's current loop: the axis's extent, or fewer in two cases. The last segment of a repeat
/// that activation checkpointing has split can be shorter, and a loop over rows can skip iterations without a valid
/// label. `valid_labels`: as in `step_parameters`; null: no iteration is skipped.
inline std::int64_t current_iterations(plan_view const& plan, int axis, loop_state const& loops,
                                       std::int64_t const* valid_labels) {
  auto const& a = plan.axes[axis];
  if (a.rows.per_iteration > 0 && valid_labels != nullptr) {
    auto const needed = a.rows.iterations(valid_labels[plan.micro_batches < 0 ? 0 : loops.index[plan.micro_batches]]);
    return needed < a.extent ? needed : a.extent;
  }
  if (a.segments < 0) return a.extent;
  auto const remaining = a.original_extent - loops.index[a.segments] * a.extent;
  return remaining < a.extent ? remaining : a.extent;
}

/// A bit mask of the outputs to which the step adds in the current iteration instead of overwriting them: every output
/// that accumulates, except in the first write to one of its instances in a run. (Outputs with a bit in `step::adds`
/// always add: an earlier step has written them.)
inline unsigned current_adds(plan_view const& plan, step const& s, loop_state const& loops) {
  unsigned adds = s.accumulates;
  for (int j = 0; j < s.outputs; ++j) {
    if ((s.accumulates >> j & 1u) == 0 || (s.adds >> j & 1u) != 0) continue;
    bool is_first_write = true;
    for (int loop : s.first[j]) is_first_write = is_first_write && loops.in_first_iteration(plan.steps[loop]);
    if (is_first_write) adds &= ~(1u << j);
  }
  return adds;
}

} // namespace detail

/// Runs a plan once: visits its steps in order, repeats its loops, and calls each kernel on its operands in `arena`.
/// Kernels of a CUDA device only enqueue their work, so the function may return before the run is complete. `arena`:
/// the arena's first byte, as the device addresses it. `h`: the hooks. `scratch`: the scratch memory of the plan
/// (device_plan.hpp), if it needs any. Throws what a kernel or a hook throws.
template <class hooks>
[[gnu::noinline]] void execute(plan_view const& plan, std::byte* arena, step_parameters const& parameters, hooks&& h,
                               std::byte* scratch = nullptr) {
  loop_state loops;
  bound_operand bound[node::maximum_inputs + node::maximum_outputs];
  for (int i = 0; i < plan.step_count; ++i) {
    auto const& s = plan.steps[i];
    switch (s.kind) {
    case node_kind::loop:
      loops.extent[s.axis] = detail::current_iterations(plan, s.axis, loops, parameters.valid_labels);
      loops.index[s.axis] = s.reversed ? loops.extent[s.axis] - 1 : 0;
      if (loops.extent[s.axis] == 0) i = s.partner; // continues after the loop
      break;
    case node_kind::end: {
      auto& index = loops.index[s.axis];
      index += s.reversed ? -1 : 1;
      if (index >= 0 && index < loops.extent[s.axis]) i = s.partner;
      break;
    }
    case node_kind::call: {
      int const operands = s.inputs + s.outputs;
      for (int k = 0; k < operands; ++k) bound[k] = detail::bind(plan.operands[s.first_operand + k], arena, loops);
      call c{s.attributes, parameters};
      c.adds = detail::current_adds(plan, s, loops);
      c.random_key = s.random_key;
      c.iteration = static_cast<std::uint64_t>(loops.sum(s.iteration));
      c.first_sample = parameters.first_sample;
      if (plan.micro_batches >= 0) c.first_sample += loops.index[plan.micro_batches] * parameters.samples;
      if (plan.device_steps != nullptr) {
        auto const& resources = plan.device_steps[i];
        c.scratch = scratch + resources.scratch;
        // Unless the hooks allow merging, every call launches its own work.
        if constexpr (merges_calls<std::remove_cvref_t<hooks>>) {
          c.merged_before = resources.merged_before;
          c.more_tensors_follow = resources.more_tensors_follow;
        }
      }
      h.before(i, s, bound, loops);
      plan.launchers[i](c, bound);
      h.after(i, s, bound, loops);
      break;
    }
    }
  }
}

} // namespace constrain
