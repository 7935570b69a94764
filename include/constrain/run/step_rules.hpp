#pragma once

#include "constrain/program/op_info.hpp"
#include "constrain/program/plan.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The `op_info` of step i; null for a loop's begin or end step.
template <class planned_entry, std::size_t i> constexpr op_info const* rules_of_step() {
  if constexpr (planned_entry::value.steps[i].kind != node_kind::call) return nullptr;
  else return &info_of<op_type<planned_entry::value.steps[i].op>>;
}

/// The rules of all steps.
template <class planned_entry, std::size_t... i> constexpr auto make_step_rules(std::index_sequence<i...>) {
  return std::array<op_info const*, sizeof...(i)>{rules_of_step<planned_entry, i>()...};
}

} // namespace detail

/// The `op_info` of every step of the plan `planned_entry::value`; null for a loop's begin and end steps. Hooks that
/// need cost or shape rules find them here: a plan holds only op labels, so that an executable without such hooks does
/// not contain the rules.
template <class planned_entry>
inline constexpr auto step_rules = detail::make_step_rules<planned_entry>(
    std::make_index_sequence<static_cast<std::size_t>(planned_entry::value.steps_size)>{});

} // namespace constrain
