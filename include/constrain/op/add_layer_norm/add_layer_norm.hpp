#pragma once

#include "constrain/op/add/add.hpp"
#include "constrain/op/layer_norm/layer_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// add and layer_norm fused, row by row: a, b [..., width], weight and bias [width] -> sum = a + b, y = layer_norm(sum,
/// weight, bias), and the mean and rstd of each row of `sum`, [rows]. The options are the same as for layer_norm. The
/// pass `fuse` inserts this op.
struct add_layer_norm {
  using options = layer_norm_options;
  static constexpr char const* name = "add_layer_norm";
  static constexpr unsigned in_place = 0b11;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    auto const sum = add::infer(in);
    if (sum.reason != why::nothing) return sum;
    operand_types norm_in;
    norm_in.push_back(sum.outputs[0]);
    norm_in.push_back(in[2]), norm_in.push_back(in[3]);
    auto const norm = layer_norm::infer(norm_in, o);
    if (norm.reason != why::nothing) return norm;
    auto result = sum;
    for (auto const& output : norm.outputs) result.outputs.push_back(output);
    return result;
  }
};

/// layer_norm_gradient fused with the addition of the residual stream's gradient. Inputs: dresidual [..., width], then
/// the inputs of layer_norm_gradient (dy, x, weight, mean, rstd). dx = dresidual + the dx of layer_norm_gradient; the
/// other outputs are the same as for layer_norm_gradient. The pass `fuse` inserts this op.
struct layer_norm_gradient_add {
  using options = row_sum_options;
  static constexpr char const* name = "layer_norm_gradient_add";
  static constexpr unsigned accumulating = layer_norm_gradient::accumulating;
  static constexpr unsigned row_sums = layer_norm_gradient::row_sums;
  static constexpr unsigned workspace = layer_norm_gradient::workspace;
  static constexpr unsigned in_place = 0b11;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    operand_types norm_in;
    for (int i = 1; i < in.size(); ++i) norm_in.push_back(in[i]);
    auto const sum = add::infer(in);
    return sum.reason != why::nothing ? sum : layer_norm_gradient::infer(norm_in, o);
  }
};

} // namespace constrain::op
