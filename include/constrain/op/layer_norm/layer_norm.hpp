#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/op/sum_parts/sum_parts.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `layer_norm`.
struct layer_norm_options {
  double epsilon = 1e-5; // added to the variance, from 0 to 1e38; with 0, a constant row can give NaN
};

namespace op {

/// The gradient of op::layer_norm: computes dx, dweight and dbias from dy, x, weight, and the mean and rstd of each
/// row. dweight and dbias are [width], or [parts, width] if row_sum_options::parts is not 0. They are summed in chunks
/// of rows that depend only on the shape. Without parts, the first write in a run of the program overwrites dweight and
/// dbias; later writes add to them. On the CPU, output 3 [chunks, 2, width] is scratch for the sums of the chunks; CUDA
/// kernels do not use it.
struct layer_norm_gradient {
  using options = row_sum_options;
  static constexpr char const* name = "layer_norm_gradient";
  static constexpr unsigned accumulating = 0b110;
  static constexpr unsigned row_sums = 0b110;
  static constexpr unsigned workspace = 0b1000;
  static constexpr unsigned in_place = 0b1;
  static constexpr std::int64_t chunks = 16; // on the CPU: chunks of each part of the rows, for any number of threads

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const width = in[1].shape.features();
    auto const sum = accumulator_of(in[0].type);
    return inferred::one(in[0].type, in[0].shape)
        .and_also(sum, o.sums_of(width))
        .and_also(sum, o.sums_of(width))
        .and_also(sum, shape(chunks, 2, width));
  }
};

/// y = (x - mean) * rstd * weight + bias over the innermost dimension, with rstd = 1 / sqrt(variance + epsilon) (Ba et
/// al. 2016): x [..., width], weight and bias [width]. The variance is the mean of (x - mean)^2. Outputs 1 and 2, the
/// mean and rstd of each row, both [rows], are for the backward pass.
struct layer_norm {
  using options = layer_norm_options;
  static constexpr char const* name = "layer_norm";
  static constexpr unsigned in_place = 0b1;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    operand_type const width{in[1].type, shape(in[0].shape.features())};
    if (auto const refusal = needs_one_shape(in[1], width); refusal.reason != why::nothing) return refusal;
    if (auto const refusal = needs_one_shape(in[1], in[2]); refusal.reason != why::nothing) return refusal;
    if (!is_epsilon(o.epsilon)) return inferred::failure<epsilon_is_out_of_range>(0, 0);
    auto const rows = shape(in[0].shape.rows());
    auto const statistic = accumulator_of(in[0].type);
    return inferred::one(in[0].type, in[0].shape).and_also(statistic, rows).and_also(statistic, rows);
  }
  static constexpr void gradient(backward& b) {
    b.emit<layer_norm_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1), b.output(2)}, {0, 1, 2, -1});
  }
};

} // namespace op

/// Layer normalization (Ba et al. 2016): normalizes each row of x [..., width] to mean 0 and variance 1, then
/// multiplies the row by the weight and adds the bias, element by element. The result has the shape of x. Parameters
/// "name.weight" (initially 1) and "name.bias" (initially 0), both [width]. Refused: token ids, an epsilon outside
/// [0, 1e38], and everything that `parameter` refuses, such as the name of another parameter.
constexpr value layer_norm(std::string_view name, value x, layer_norm_options options = {},
                           int line = __builtin_LINE()) {
  scope const inside(x.owner(), name, line);
  auto const weight = parameter(x, "weight", shape(x.features()), role::norm, {.constant = 1}, line);
  auto const bias = parameter(x, "bias", shape(x.features()), role::norm, {}, line);
  return emit<op::layer_norm>({x, weight, bias}, options, line);
}

} // namespace constrain
