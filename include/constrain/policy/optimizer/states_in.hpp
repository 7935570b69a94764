#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/op/update/update.hpp"
#include "constrain/policy/optimizer/is_optimizer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::optimizer {

/// An element-wise optimizer whose states are stored in `type`: dtype::bf16 or dtype::f32. The update computes in fp32
/// (fp64 with precision::fp64), and rounds the new states to nearest when it stores them. In bf16, adamw takes 4 bytes
/// of states per weight instead of 8; with precision::pure_bf16, a state "compensation" takes 2 more. A moving average
/// in bf16 does not change if a step would change it by less than 1/512 of its value. With beta2 = 0.999, the second
/// moment of adamw can grow but not shrink; with 0.99, it can do both.
///
///     using optimizer = ct::optimizer::states_in<ct::dtype::bf16, ct::optimizer::adamw>;
template <dtype type, class O> struct states_in : O {
  static constexpr bool base_fits = has_state<O> && has_update<O> && !has_update_rule<O>; // false: compile-time error
  using base = O; // its name follows `name` in output and saved runs: "states_in_bf16<adamw>"
  /// The level of this wrapper in the order of nesting (`nesting_level`).
  using nests_at = constrain::detail::nesting<states_in, constrain::detail::nesting_level::states_in>;
  static constexpr char const* name = type == dtype::bf16 ? "states_in_bf16" : "states_in_fp32";
  static constexpr dtype state_type = type; // the stored type of the states
};

template <dtype type, class O>
  requires(!constrain::detail::can_be_wrapped<O>)
struct states_in<type, O> : constrain::detail::wraps_no_optimizer {};

} // namespace constrain::optimizer
