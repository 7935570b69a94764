#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of op::soft_cap and op::soft_cap_gradient.
struct soft_cap_options {
  double cap = 30; // upper bound of |y| before y is rounded to its type; from 1e-37 to 1e38
};

namespace op {

/// The gradient of op::soft_cap from dy and y: dx = dy (1 - (y / cap)^2), element by element, or 0 if y was rounded
/// beyond the cap.
struct soft_cap_gradient {
  using options = soft_cap_options;
  static constexpr char const* name = "soft_cap_gradient";
  static constexpr char const* layouts = "...f, ...f -> ...f";
  static constexpr unsigned in_place = 0b11;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

/// y = cap tanh(x / cap), element by element.
struct soft_cap {
  using options = soft_cap_options;
  static constexpr char const* name = "soft_cap";
  static constexpr char const* layouts = "...f -> ...f";
  static constexpr unsigned in_place = 0b1;

  /// Refused: a cap outside [1e-37, 1e38], so that the cap is neither 0 nor infinite in fp32.
  template <diagnosis d> struct cap_is_out_of_range {
    static_assert(d.ok(), "ct::soft_cap: the cap is not in [1e-37, 1e38]; give a number in this range, for example 30");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    if (!(o.cap >= constrain::detail::smallest_fp32_option && o.cap <= constrain::detail::largest_fp32_option))
      return inferred::failure<cap_is_out_of_range>(0, 0);
    return inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(backward& b) {
    b.emit<soft_cap_gradient>({b.gradient(), b.output()}, {0}, b.options<soft_cap>());
  }
};

} // namespace op

/// Maps x smoothly into [-cap, cap]: cap tanh(x / cap), element by element, any shape. Gemma 2 (Gemma Team 2024,
/// section 2) caps its logits this way: `ct::soft_cap(ct::linear("head", x, classes), 30)`. Refused: token ids, and a
/// cap outside [1e-37, 1e38].
constexpr value soft_cap(value x, double cap, int line = __builtin_LINE()) {
  return emit<op::soft_cap>({x}, soft_cap_options{cap}, line);
}

} // namespace constrain
