#pragma once

#include "constrain/device/kernel_needs.hpp"
#include "constrain/run/launchers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The scratch memory and the launches of one step of a plan. All members are 0 by default, because g++ 12 stores zeros
/// for the elements of a constant array that a constexpr function has left as they were initialized.
struct device_step {
  std::int64_t scratch = 0;      // where its scratch memory begins, in the scratch memory of the plan
  std::int64_t bytes = 0;        // of scratch memory
  std::int64_t launches = 0;     // launches of the call; of merged calls, the last one has all
  int merged_before = 0;         // number of calls before this one that are merged with it
  bool merged_with_next = false; // whether the next call is merged with it
};

/// The part of a plan that depends on the device.
template <int step_count> struct device_plan {
  device_step steps[step_count == 0 ? 1 : step_count]{}; // by the step's index in the plan
  std::int64_t scratch = 0;                              // bytes of scratch memory: calls that are not merged share it
  bool has_needs = false; // whether any kernel has `needs_of`; if not, all steps are as by default
};

namespace detail {

/// What step `s` of the plan `p` needs.
template <class plan> constexpr kernel_needs needs_of_step(plan const& p, step const& s, needs_rule rule) {
  operand_extents inputs, outputs;
  for (int k = 0; k < s.inputs + s.outputs; ++k) {
    operand const& o = p.operands[s.first_operand + k];
    (k < s.inputs ? inputs : outputs).push_back({o.type, o.shape, o.count});
  }
  return rule(inputs, outputs, s.attributes);
}

/// Gives every step its scratch memory, and merges calls. `rules`: by the index of the call.
template <class device, int steps, class plan>
constexpr device_plan<steps> plan_for(plan const& p, distinct_calls<steps> const& calls, needs_rule const* rules) {
  device_plan<steps> out;
  for (int i = 0; i < steps; ++i) {
    int const call = calls.of_step[i];
    if (call < 0) continue;
    out.steps[i].launches = 1;
    if (rules[call] == nullptr) continue;
    out.has_needs = true;
    auto const needs = needs_of_step(p, p.steps[i], rules[call]);
    auto& mine = out.steps[i];
    mine.bytes = needs.scratch;
    if (i > 0 && out.steps[i - 1].merged_with_next) {
      auto const& last = out.steps[i - 1];
      mine.merged_before = last.merged_before + 1;
      mine.scratch = last.scratch + (last.bytes + device::alignment - 1) / device::alignment * device::alignment;
    }
    mine.merged_with_next =
        device::has_launches && i + 1 < steps && calls.of_step[i + 1] == call && mine.merged_before + 1 < needs.merged;
    if (device::has_launches) mine.launches = mine.merged_with_next ? 0 : needs.launches;
    if (mine.scratch + mine.bytes > out.scratch) out.scratch = mine.scratch + mine.bytes;
  }
  return out;
}

/// The `needs_of` of the different calls of a plan.
template <class holder, class device, std::size_t... call> constexpr auto needs_rules(std::index_sequence<call...>) {
  return std::array<needs_rule, sizeof...(call) + 1>{
      needs_rule_of<op_type<holder::value.steps[calls_of<holder>.first[call]].op>, device>..., nullptr};
}

} // namespace detail

/// The device plan of the plan `holder::value`.
template <class holder, class device>
inline constexpr auto device_plan_of = detail::plan_for<device, holder::value.steps_size>(
    holder::value, detail::calls_of<holder>,
    detail::needs_rules<holder, device>(detail::call_indices<holder>{}).data());

} // namespace constrain
