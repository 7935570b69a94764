#pragma once

#include "constrain/device/kernel_needs.hpp"
#include "constrain/run/launchers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The scratch memory and the launches of one step of a plan. Every default must be zero: g++ 12 stores zeros for the
/// elements of a constant array that a constexpr function has not assigned, regardless of their member initializers.
struct device_step {
  std::int64_t scratch = 0;         // byte offset of the step's scratch memory in the plan's scratch memory
  std::int64_t bytes = 0;           // bytes of scratch memory
  std::int64_t launches = 0;        // number of launches; for merged calls, the last has the total, and the rest have 0
  int merged_before = 0;            // number of preceding calls that are merged with this one
  bool more_tensors_follow = false; // whether the next call is merged with this one
};

/// The part of a plan that depends on the device.
template <int step_count> struct device_plan {
  device_step steps[step_count == 0 ? 1 : step_count]{}; // by index of the step
  std::int64_t scratch = 0;                              // bytes of scratch memory; merged calls use disjoint ranges
  bool has_needs = false;         // whether any kernel has `needs_of`; if not, no step has scratch memory or is merged
  int refused = -1;               // index of the first step with impossible needs (`needs_are_possible`); -1: none
  std::int64_t refused_bytes = 0; // bytes of scratch memory that the refused step asks for
};

namespace detail {

/// The needs of step `s` of the plan `p`, computed by `rule`.
template <class plan> constexpr kernel_needs needs_of_step(plan const& p, step const& s, needs_rule rule) {
  operand_extents inputs, outputs;
  for (int k = 0; k < s.inputs + s.outputs; ++k) {
    operand const& o = p.operands[s.first_operand + k];
    (k < s.inputs ? inputs : outputs).push_back({o.type, o.shape, o.count, o.row_stride});
  }
  return rule(inputs, outputs, s.attributes);
}

/// A range of bytes in the arena.
struct byte_range {
  std::int64_t begin = 0; // from the arena's start
  std::int64_t end = 0;   // one past the last byte
};

/// A range that contains the operand's bytes in every iteration.
template <class plan> constexpr byte_range reach_of(plan const& p, operand const& o) {
  auto const features = o.shape.features();
  auto const row_gaps = o.row_stride == 0 ? 0 : (o.count / features - 1) * (o.row_stride - features);
  byte_range r{o.offset, o.offset + (o.count + row_gaps) * size_of(o.type)};
  auto const extend = [&](std::int64_t amount) { (amount < 0 ? r.begin : r.end) += amount; };
  for (auto const& term : o.strides) extend((p.axes[term.axis].extent - 1) * term.stride);
  if (o.ring != 0) extend((o.ring - 1) * o.position_stride);
  else {
    r.begin += o.position * o.position_stride;
    r.end += o.position * o.position_stride;
    for (auto const& term : o.position_factors)
      extend((p.axes[term.axis].extent - 1) * term.stride * o.position_stride);
  }
  return r;
}

/// Whether two calls are independent: neither reads nor writes memory that the other writes, except that, with
/// `may_add`, both may accumulate into the same value. `reach`: the `reach_of` of each operand of the plan.
template <class plan>
constexpr bool independent(plan const& p, step const& a, step const& b, byte_range const* reach, bool may_add) {
  for (int i = 0; i < a.inputs + a.outputs; ++i)
    for (int j = i < a.inputs ? b.inputs : 0; j < b.inputs + b.outputs; ++j) {
      auto const &x = reach[a.first_operand + i], &y = reach[b.first_operand + j];
      if (x.end <= y.begin || y.end <= x.begin) continue;
      bool const both_add = may_add && i >= a.inputs && j >= b.inputs && (a.accumulates >> (i - a.inputs) & 1u) != 0 &&
                            (b.accumulates >> (j - b.inputs) & 1u) != 0 &&
                            p.operands[a.first_operand + i].value == p.operands[b.first_operand + j].value;
      if (!both_add) return false;
    }
  return true;
}

/// Whether two calls have the same operand wherever a launch takes one operand for all merged calls
/// (`kernel_needs::shared_inputs` and `kernel_needs::merges_sums`).
template <class plan>
constexpr bool share_operands(plan const& p, step const& a, step const& b, kernel_needs const& needs) {
  auto const is_same = [&](int k) {
    auto const &x = p.operands[a.first_operand + k], &y = p.operands[b.first_operand + k];
    return x.value == y.value && x.position == y.position;
  };
  for (int k = 0; k < a.inputs; ++k)
    if ((needs.shared_inputs >> k & 1u) != 0 && !is_same(k)) return false;
  return !needs.merges_sums || is_same(a.inputs);
}

/// Assigns scratch memory to every step of the plan `p`. If `device::has_launches`, merges consecutive independent
/// calls with the same op and dtypes, at most as many at a time as each of them allows (`kernel_needs::merged`), if
/// they have the same operands where a launch takes one for all (`share_operands`). `calls`: the distinct calls of `p`.
/// `rules`: the `needs_of` of each distinct call; null: none. Stops at the first step with impossible needs.
template <class device, int steps, class plan>
constexpr device_plan<steps> plan_for(plan const& p, distinct_calls<steps> const& calls, needs_rule const* rules) {
  device_plan<steps> out;
  byte_range reach[std::extent_v<decltype(p.operands)>]{}; // of the operands of calls that may be merged
  auto const find_reach = [&](step const& s) {
    for (int k = s.first_operand; k < s.first_operand + s.inputs + s.outputs; ++k)
      reach[k] = reach_of(p, p.operands[k]);
  };
  int most = 0; // the smallest `merged` of the calls that are merged with step i - 1
  for (int i = 0; i < steps; ++i) {
    int const call = calls.of_step[i];
    if (call < 0) continue;
    out.steps[i].launches = 1;
    if (rules[call] == nullptr) continue;
    out.has_needs = true;
    auto const needs = needs_of_step(p, p.steps[i], rules[call]);
    auto& current = out.steps[i];
    if (device::has_launches) {
      current.launches = needs.launches;
      int const before = i > 0 && calls.of_step[i - 1] == call ? out.steps[i - 1].merged_before + 1 : 0;
      bool merges = before > 0 && before < std::min(most, needs.merged);
      if (merges) {
        if (before == 1) find_reach(p.steps[i - 1]);
        find_reach(p.steps[i]);
        for (int k = i - before; k < i && merges; ++k)
          merges = independent(p, p.steps[k], p.steps[i], reach, needs.merges_sums) &&
                   share_operands(p, p.steps[k], p.steps[i], needs);
      }
      most = merges ? std::min(most, needs.merged) : needs.merged;
      if (merges) {
        auto& previous = out.steps[i - 1];
        previous.more_tensors_follow = true, previous.launches = 0;
        current.merged_before = before;
        current.scratch =
            previous.scratch + (previous.bytes + device::alignment - 1) / device::alignment * device::alignment;
      }
    }
    if (needs.scratch < 0 || needs.scratch > maximum_scratch - current.scratch) {
      out.refused = i;
      out.refused_bytes = needs.scratch;
      return out;
    }
    current.bytes = needs.scratch;
    if (current.scratch + current.bytes > out.scratch) out.scratch = current.scratch + current.bytes;
  }
  return out;
}

/// The `needs_of` of each distinct call of a plan, in order, followed by a null pointer.
template <class planned_entry, class device, std::size_t... call>
constexpr auto needs_rules(std::index_sequence<call...>) {
  return std::array<needs_rule, sizeof...(call) + 1>{
      needs_rule_of<op_type<planned_entry::value.steps[calls_of<planned_entry>.first[call]].op>, device>..., nullptr};
}

} // namespace detail

/// The device plan of the plan `planned_entry::value`.
template <class planned_entry, class device>
inline constexpr auto device_plan_of = detail::plan_for<device, planned_entry::value.steps_size>(
    planned_entry::value, detail::calls_of<planned_entry>,
    detail::needs_rules<planned_entry, device>(detail::call_indices<planned_entry>{}).data());

namespace detail {

/// The compile-time error for a kernel whose `needs_of` cannot be called.
template <class op, class device> struct needs_can_be_called {
  static_assert(can_call_needs_of<op, device>,
                "run: this kernel has a member `needs_of` that cannot be called with the operands; declare it as a "
                "public `static constexpr ct::kernel_needs needs_of(ct::operand_extents const& inputs, "
                "ct::operand_extents const& outputs)`, with the options of the op as a third argument if it needs "
                "them");
};

/// The compile-time error for a kernel that asks for an impossible amount of scratch memory. The limit applies to the
/// total of merged calls.
template <class op, class device, std::int64_t bytes> struct scratch_of_kernel {
  static_assert(bytes >= 0 && bytes <= maximum_scratch,
                "run: `needs_of` of this kernel asks for a negative number of bytes of scratch memory, or for more "
                "than 2^52; return 0 to 2^52 bytes as `.scratch`");
  static_assert(bytes < 0 || bytes > maximum_scratch,
                "run: merged calls to this kernel ask for more than 2^52 bytes of scratch memory together; return a "
                "smaller `.scratch` or `.merged` from its `needs_of`");
};

/// Compile-time error unless the needs of every kernel in these plans are possible. Reports the first plan with an
/// impossible need.
template <class device, class... planned_entries> struct needs_are_possible {};
template <class device, class planned_entry, class... others>
struct needs_are_possible<device, planned_entry, others...> : needs_are_possible<device, others...> {};
template <class device, class planned_entry, class... others>
  requires(device_plan_of<planned_entry, device>.refused >= 0)
struct needs_are_possible<device, planned_entry, others...> {
  static constexpr auto const& plan = device_plan_of<planned_entry, device>;
  using op = op_type<planned_entry::value.steps[plan.refused].op>;
  using error = std::conditional_t<can_call_needs_of<op, device>, scratch_of_kernel<op, device, plan.refused_bytes>,
                                   needs_can_be_called<op, device>>;
  static_assert(sizeof(error) > 0);
};

} // namespace detail

} // namespace constrain
