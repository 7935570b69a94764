#pragma once

#include "constrain/program/op_info.hpp"
#include "constrain/program/plan.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The `op_info` of step i; null for a loop's begin or end step.
template <class holder, std::size_t i> constexpr op_info const* rules_of_step() {
  if constexpr (holder::value.steps[i].kind != node_kind::call) return nullptr;
  else return &info_of<op_type<holder::value.steps[i].op>>;
}

template <class holder, std::size_t... i> constexpr auto make_step_rules(std::index_sequence<i...>) {
  return std::array<op_info const*, sizeof...(i)>{rules_of_step<holder, i>()...};
}

} // namespace detail

/// The `op_info` of every step of the plan `holder::value`; null for a loop's begin and end steps. Hooks that need cost
/// or shape rules find them here: a plan holds only op labels, so that an executable without such hooks does not
/// contain the rules.
template <class holder>
inline constexpr auto step_rules =
    detail::make_step_rules<holder>(std::make_index_sequence<static_cast<std::size_t>(holder::value.steps_size)>{});

} // namespace constrain
