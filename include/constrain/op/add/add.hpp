#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// y = a + b, element by element; a and b have the same shape.
struct add {
  static constexpr char const* name = "add";
  static constexpr bool any_gradient_type = true;
  static constexpr char const* layouts = "-f, -f -> -f";
  static constexpr unsigned in_place = 0b11;
  static constexpr bool promotes_types = true;

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in, 2); refusal.reason != why::nothing) return refusal;
    if (auto const refusal = needs_one_shape(in[0], in[1]); refusal.reason != why::nothing) return refusal;
    return inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(backward& b) {
    b.add(0, b.gradient());
    b.add(1, b.gradient());
  }
};

} // namespace op

/// The sum of a and b, element by element. Also written `a + b`. Refused: different shapes, and token ids.
constexpr value add(value a, value b, int line = __builtin_LINE()) { return emit<op::add>({a, b}, {}, line); }
constexpr value operator+(value a, value_at_line b) { return add(a, b.value, b.line); }

} // namespace constrain
