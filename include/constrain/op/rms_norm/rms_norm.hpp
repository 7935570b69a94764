#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/op/sum_parts/sum_parts.hpp"
#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `rms_norm`.
struct rms_norm_options {
  double epsilon = 1e-5; // added to the mean square, from 0 to 1e38; with 0, a row of zeros gives NaN
};

namespace op {

/// The gradient of op::rms_norm: computes dx and dweight from dy, x, weight and the rstd of each row. With n = x * rstd
/// and mean(...) over each row:
///
///     dx      = rstd (dy weight - n mean(dy weight n))
///     dweight = the sum of dy n over the rows
///
/// dweight is [width], or [parts, width] if row_sum_options::parts is not 0. It is summed in chunks of rows that depend
/// only on the shape. Without parts, the first write in a run of the program overwrites dweight; later writes add to
/// it. On the CPU, output 2 [chunks, width] is scratch for the sums of the chunks; CUDA kernels do not use it.
struct rms_norm_gradient {
  using options = row_sum_options;
  static constexpr char const* name = "rms_norm_gradient";
  static constexpr unsigned accumulating = 0b10;
  static constexpr unsigned row_sums = 0b10;
  static constexpr unsigned workspace = 0b100;
  static constexpr unsigned in_place = 0b1;
  static constexpr std::int64_t chunks = 16; // on the CPU: chunks of each part of the rows, for any number of threads

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const width = in[1].shape.features();
    auto const sum = accumulator_of(in[0].type);
    return inferred::one(in[0].type, in[0].shape).and_also(sum, o.sums_of(width)).and_also(sum, shape(chunks, width));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto cost = cost_by_operands(in, out);
    cost.flops = 12.0 * static_cast<double>(in[1].shape.elements());
    return cost;
  }
};

/// y = x * rstd * weight: x [..., width], weight [width]. rstd = 1 / sqrt(mean(x^2) + epsilon) is the reciprocal root
/// mean square of a row (Zhang & Sennrich 2019). Output 1, the rstd of each row, [rows], is for the backward pass.
struct rms_norm {
  using options = rms_norm_options;
  static constexpr char const* name = "rms_norm";
  static constexpr unsigned in_place = 0b1;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    operand_type const width{in[1].type, shape(in[0].shape.features())};
    if (auto const refusal = needs_one_shape(in[1], width); refusal.reason != why::nothing) return refusal;
    if (!is_epsilon(o.epsilon)) return inferred::failure<epsilon_is_out_of_range>(0, 0);
    return inferred::one(in[0].type, in[0].shape).and_also(accumulator_of(in[0].type), shape(in[0].shape.rows()));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto cost = cost_by_operands(in, out);
    cost.flops = 4.0 * static_cast<double>(in[0].shape.elements());
    return cost;
  }
  static constexpr void gradient(backward& b) {
    b.emit<rms_norm_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1)}, {0, 1, -1});
  }
};

} // namespace op

/// RMS normalization (Zhang & Sennrich 2019), like torch.nn.RMSNorm: divides each row of x [..., width] by the row's
/// root mean square, and multiplies the result by the weight, element by element. The result has the shape of x.
/// Parameter "name.weight" (initially 1), [width]. Refused: token ids, an epsilon outside [0, 1e38], and everything
/// that `parameter` refuses, such as the name of another parameter.
constexpr value rms_norm(std::string_view name, value x, rms_norm_options options = {}, int line = __builtin_LINE()) {
  scope const inside(x.owner(), name, line);
  auto const weight = parameter(x, "weight", shape(x.features()), role::norm, {.constant = 1}, line);
  return emit<op::rms_norm>({x, weight}, options, line);
}

} // namespace constrain
