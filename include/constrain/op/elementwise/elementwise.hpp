#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/op/sum_parts/sum_parts.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// Whether the backward pass must keep the functor's argument x: `functor::derivative_uses_input`, or true if the
/// functor has no such member.
template <class functor> constexpr bool derivative_uses_input() {
  if constexpr (requires { functor::derivative_uses_input; }) return functor::derivative_uses_input;
  else return true;
}
/// Whether the backward pass must keep the functor's result y: `functor::derivative_uses_output`, or true if the
/// functor has no such member.
template <class functor> constexpr bool derivative_uses_output() {
  if constexpr (requires { functor::derivative_uses_output; }) return functor::derivative_uses_output;
  else return true;
}

/// elementwise_gradient fused with linear_bias_gradient. Inputs: as for elementwise_gradient. Outputs 0 and 1: dx, and
/// db (+)= the sum of the rows of dx, [..., out] -> [out]; if row_sum_options::parts is not 0, db = the sums over each
/// part of the rows, [parts, out]. The rows are added in chunks that depend only on the shape. (+)=: the first write in
/// a run of the program overwrites db; later writes add to it. Output 2 is scratch for the sums of the chunks; only the
/// CPU kernel uses it. The pass `fuse` inserts this op.
template <class functor> struct elementwise_gradient_bias {
  using options = row_sum_options;
  static constexpr char const* name = "elementwise_gradient_bias";
  static constexpr unsigned in_place = 0b111;
  static constexpr unsigned accumulating = 0b10;
  static constexpr unsigned row_sums = 0b10;
  static constexpr unsigned workspace = 0b100;
  // Number of chunks on the CPU, for any number of threads. If db is [parts, out], each part has this many chunks.
  static constexpr std::int64_t chunks = 16;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const sum = accumulator_of(in[0].type);
    auto const width = in[0].shape.features();
    return inferred::one(in[0].type, in[0].shape).and_also(sum, o.sums_of(width)).and_also(sum, shape(chunks, width));
  }
};

/// dx = functor::gradient(x, y, dy), element by element. Inputs: dy, then x and y, each only if the derivative uses it.
template <class functor> struct elementwise_gradient {
  static constexpr char const* name = "elementwise_gradient";
  static constexpr bool uses_input = derivative_uses_input<functor>();
  static constexpr bool uses_output = derivative_uses_output<functor>();
  static constexpr unsigned in_place = 0b111;
  using with_bias_gradient = elementwise_gradient_bias<functor>;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

/// y = functor::forward(x), element by element.
template <class functor> struct elementwise {
  static constexpr char const* name = "elementwise";
  static constexpr char const* layouts = "-f -> -f";
  static constexpr unsigned in_place = 0b1;

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    return inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(backward& b) {
    using gradient_op = elementwise_gradient<functor>;
    if constexpr (gradient_op::uses_input && gradient_op::uses_output)
      b.emit<gradient_op>({b.gradient(), b.input(0), b.output()}, {0});
    else if constexpr (gradient_op::uses_input) b.emit<gradient_op>({b.gradient(), b.input(0)}, {0});
    else if constexpr (gradient_op::uses_output) b.emit<gradient_op>({b.gradient(), b.output()}, {0});
    else b.emit<gradient_op>({b.gradient()}, {0});
  }
};

} // namespace op

/// y = functor::forward(x), element by element, any shape. `functor` must have the two static functions below.
/// `gradient` gets y, the result of forward(x) rounded to the tensor's type, and returns dx, the product of dy and the
/// derivative of `forward` at x. `real` is double for fp64 and float for all other types.
///
///   struct softcap {
///     template <class real> CT_HOST_DEVICE static real forward(real x);
///     template <class real> CT_HOST_DEVICE static real gradient(real x, real y, real dy);
///   };
///
/// If `gradient` does not use x, declare `static constexpr bool derivative_uses_input = false` in `functor`: then x is
/// not kept for the backward pass, and `gradient` gets 0 instead of x. `derivative_uses_output` does the same for y.
/// Refused: token ids.
template <class functor> constexpr value elementwise(value x, int line = __builtin_LINE()) {
  return emit<op::elementwise<functor>>({x}, {}, line);
}

} // namespace constrain
