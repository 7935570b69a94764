#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/setting.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The gradient of op::squared_error from dloss, prediction, target and `inverse_label_count`: dprediction = 2
/// (prediction - target) * dloss * `inverse_label_count`, element by element. dloss and `inverse_label_count` are
/// scalars in fp64. With prediction and target exchanged, this is the gradient with respect to target.
struct squared_error_gradient {
  static constexpr char const* name = "squared_error_gradient";
  static constexpr unsigned in_place = 0b10;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[1].type, in[1].shape); }
};

/// From prediction, target (of the same shape) and `inverse_label_count` (a scalar in fp64): loss (+)=
/// `inverse_label_count` * the sum of (prediction - target)^2, a scalar in fp64. (+)=: the first write in a run of the
/// program overwrites the output; later writes add to it. Output 1 [parts] is scratch: partial sums of the squares,
/// each over a fixed range of elements, so that the squares are added in the same order for any number of threads.
struct squared_error {
  static constexpr char const* name = "squared_error";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b10;
  static constexpr std::int64_t parts = 64; // number of partial sums

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in, 2); refusal.reason != why::nothing) return refusal;
    if (auto const refusal = needs_one_shape(in[0], in[1]); refusal.reason != why::nothing) return refusal;
    return inferred::one(dtype::f64, {}).and_also(dtype::f64, shape(parts));
  }
  static constexpr void gradient(backward& b) {
    if (b.needs(0)) b.emit<squared_error_gradient>({b.gradient(), b.input(0), b.input(1), b.input(2)}, {0});
    if (b.needs(1)) b.emit<squared_error_gradient>({b.gradient(), b.input(1), b.input(0), b.input(2)}, {1});
  }
};

} // namespace op

/// The squared error, a scalar: the mean of (prediction - target)^2 over all elements of the batch, if target is the
/// objective's first label array. For any other target, the sum is divided by the number of valid labels in the first
/// array (`inverse_label_count`). prediction and target are floating-point and have the same shape. In a step, every
/// micro-batch on every rank divides by the number of valid labels in the whole batch, so that the losses of the
/// micro-batches add up to the loss of the batch. In an evaluation, each micro-batch divides by its own number of valid
/// labels. Refused: different shapes, and integers, such as token ids and classes.
constexpr value squared_error(value prediction, value target, int line = __builtin_LINE()) {
  return emit<op::squared_error>({prediction, target, inverse_label_count(target)}, {}, line);
}

} // namespace constrain
