#pragma once

#include "constrain/op/cast/cast.hpp"
#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// y = a * b, element by element; a and b have the same shape.
struct multiply {
  static constexpr char const* name = "multiply";
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
    auto const dy = b.gradient();
    // The gradient of a matmul's weight is fp32, even if the weight is a product of values in 16 bits.
    auto const factor = [&](int i) {
      auto const x = b.input(i);
      return x.type() == dy.type() ? x : constrain::emit<cast>({x}, {.to = dy.type()}, b.line());
    };
    b.emit<multiply>({dy, factor(1)}, {0});
    b.emit<multiply>({dy, factor(0)}, {1});
  }
};

} // namespace op

/// The product of a and b, element by element. Also written `a * b`. Refused: different shapes, and token ids.
constexpr value multiply(value a, value b, int line = __builtin_LINE()) { return emit<op::multiply>({a, b}, {}, line); }
constexpr value operator*(value a, value_at_line b) { return multiply(a, b.value, b.line); }

} // namespace constrain
