#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// Zeroes elements with probability p, the run's `.dropout`, and scales the others by 1 / (1 - p) (Srivastava et al.
/// 2014). The mask comes from a counter-based generator (Philox: Salmon et al. 2011), keyed by seed, step, node,
/// iteration and the element's position in the batch. The mask is therefore not stored: the gradient applies the same
/// op to dy and computes the mask again.
struct dropout {
  static constexpr char const* name = "dropout";
  static constexpr unsigned in_place = 0b1;
  static constexpr bool only_in_training = true;
  static constexpr bool draws_random = true;

  static constexpr inferred infer(operand_types const& in) {
    if (auto const wrong = needs_reals(in); wrong.reason != why::nothing) return wrong;
    return inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(backward& b) { b.emit<dropout>({b.gradient()}, {0}); }
};

} // namespace op

/// Dropout on x [sequences, ...] with the run's `.dropout` (0 by default) as probability. Only training applies it:
/// evaluate, predict and generate return x.
constexpr value dropout(value x, int line = __builtin_LINE()) { return emit<op::dropout>({x}, {}, line); }

} // namespace constrain
