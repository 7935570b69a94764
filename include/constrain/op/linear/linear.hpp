#pragma once

#include "constrain/op/refusals.hpp"
#include "constrain/op/sum_parts/sum_parts.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/in_parts.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The gradient of op::linear with respect to x: dx = dy W, with dy [..., out], W [out, in] -> [..., in].
struct linear_input_gradient {
  static constexpr char const* name = "linear_input_gradient";
  static constexpr unsigned gemm_operands = 0b11;
  static constexpr unsigned strided_inputs = 0b1;
  static constexpr char const* layouts = "..., - -> ...";

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(in[0].type, in[0].shape.with_features(in[1].shape.features()));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto result = cost_by_operands(in, out);
    result.flops = 2.0 * static_cast<double>(in[0].shape.rows()) * static_cast<double>(in[1].shape.elements());
    return result;
  }
};

/// The gradient of op::linear with respect to W: dW (+)= dy^T x, with dy [..., out], x [..., in] -> [out, in]. (+)=:
/// the first write in a run of the program overwrites the output; later writes add to it.
struct linear_weight_gradient {
  static constexpr char const* name = "linear_weight_gradient";
  static constexpr unsigned gemm_operands = 0b11;
  static constexpr unsigned strided_inputs = 0b1;
  static constexpr unsigned accumulating = 0b1;
  static constexpr char const* layouts = "... -> -";

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(accumulator_of(in[0].type), shape(in[0].shape.features(), in[1].shape.features()));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto result = cost_by_operands(in, out);
    result.flops = 2.0 * static_cast<double>(in[0].shape.rows()) * static_cast<double>(out[0].shape.elements());
    return result;
  }
};

/// The gradient of op::linear with respect to b: db (+)= the sum of the rows of dy, [..., out] -> [out]; if
/// row_sum_options::parts is not 0, db = the sums over each part of the rows, [parts, out]. The order of the additions
/// does not depend on the number of threads. (+)=: the first write in a run of the program overwrites the output; later
/// writes add to it.
struct linear_bias_gradient {
  using options = row_sum_options;
  static constexpr char const* name = "linear_bias_gradient";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned row_sums = 0b1;
  static constexpr unsigned strided_inputs = 0b1;
  static constexpr char const* layouts = "... -> -";

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(accumulator_of(in[0].type), o.sums_of(in[0].shape.features()));
  }
};

/// y = x W^T + b: x [..., in], W [out, in], b [out] or absent -> [..., out].
struct linear {
  static constexpr char const* name = "linear";
  static constexpr unsigned gemm_operands = 0b11;
  static constexpr unsigned strided_outputs = 0b1;
  static constexpr char const* layouts = "...i, oi, +o -> ...o";

  /// Refused: a scalar x.
  template <diagnosis d> struct input_is_a_scalar {
    static_assert(d.ok(), "the input of ct::linear has no feature dimension; pass a value of shape [..., features]");
  };

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in, 2); refusal.reason != why::nothing) return refusal;
    if (in[0].shape.rank < 1) return inferred::failure<input_is_a_scalar>(1, in[0].shape.rank);
    if (in[1].shape.rank != 2) return inferred::failure<weight_is_not_a_matrix>(2, in[1].shape.rank);
    if (in[0].shape.features() != in[1].shape.features())
      return inferred::failure<widths_differ>(in[1].shape.features(), in[0].shape.features());
    auto const features = in[1].shape.extent[0];
    if (in.size() > 2)
      if (auto const refusal = needs_one_shape({in[2].type, shape(features)}, in[2]); refusal.reason != why::nothing)
        return refusal;
    return inferred::one(in[0].type, in[0].shape.with_features(features));
  }
  static constexpr cost cost_of(operand_types const& in, operand_types const& out) {
    auto result = cost_by_operands(in, out);
    result.flops = 2.0 * static_cast<double>(in[0].shape.rows()) * static_cast<double>(in[1].shape.elements());
    return result;
  }
  static constexpr void gradient(backward& b) {
    if (b.needs(0)) b.emit<linear_input_gradient>({b.gradient(), b.input(1)}, {0});
    if (b.needs(1)) b.emit<linear_weight_gradient>({b.gradient(), b.input(0)}, {1});
    if (b.inputs() == 3 && b.needs(2)) b.emit<linear_bias_gradient>({b.gradient()}, {2});
  }
};

} // namespace op

/// Options of `linear`.
struct linear_options {
  bool bias = true;  // whether there is a bias; its initial value is 0
  double stddev = 0; // standard deviation of the initial weight (normal, mean 0); 0: 1/sqrt(x.features())
  constrain::role role = constrain::role::weight; // role of the weight; the bias has role::bias
  part_list parts{}; // features of each layer, if one matmul computes several (`in_parts`); empty: one layer
};

/// y = x W^T with an existing weight W [out, in]: x [..., in] -> [..., out]. For a head with tied weights, pass the
/// table of the embedding. Refused: token ids, a scalar x, a W that does not have two dimensions, and an x and a W with
/// different innermost extents.
constexpr value linear(value x, value weight, int line = __builtin_LINE()) {
  return emit<op::linear>({x, weight}, {}, line);
}

/// y = x W^T + b: x [..., in] -> [..., features]. The parameters are W, "name.weight" [features, in], and b,
/// "name.bias" [features]; with `.bias = false` there is no b. If one matmul computes several layers that read x, such
/// as the projections to queries, keys and values, `.parts` lists the features of each layer, for example {8, 2, 2}.
/// Then parallel::tensor divides each part of W and b separately, and Muon orthogonalizes each part of W (`in_parts`).
/// The parts must add up to `features`. Refused: token ids, a scalar x, fewer than one feature, parts that `in_parts`
/// refuses, and everything else that `parameter` refuses, such as a `.stddev` outside [0, 1e30].
constexpr value linear(std::string_view name, value x, std::int64_t features, linear_options options = {},
                       int line = __builtin_LINE()) {
  scope const inside(x.owner(), name, line);
  double stddev = options.stddev;
  if (stddev == 0) {
    // root = sqrt(in) by Newton's method, because std::sqrt is not constexpr.
    double root = 1;
    for (int i = 0; i < 40; ++i) root = 0.5 * (root + x.features() / root);
    stddev = 1 / root;
  }
  auto const in_parts_of = [&](value p) { return in_parts(p, options.parts, 0, line); };
  auto const weight =
      in_parts_of(parameter(x, "weight", shape(features, x.features()), options.role, {.stddev = stddev}, line));
  if (!options.bias) return emit<op::linear>({x, weight}, {}, line);
  auto const bias = in_parts_of(parameter(x, "bias", shape(features), role::bias, {}, line));
  return emit<op::linear>({x, weight, bias}, {}, line);
}

} // namespace constrain
