#pragma once

#include "constrain/op/add_layer_norm/add_layer_norm.hpp"
#include "constrain/op/dropout/dropout.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// dropout and add fused: a, b, p -> a + dropout(b, p), element by element; a and b have the same shape, and p is a
/// scalar (fp64). The pass `fuse` inserts this op for a dropout whose result only an add reads.
struct dropout_add {
  static constexpr char const* name = "dropout_add";
  static constexpr unsigned in_place = 0b11;

  static constexpr inferred infer(operand_types const& in) { return add::infer(in); }
};

/// dropout and add_layer_norm fused: a, b [..., width], p (fp64, a scalar), weight and bias [width] -> the outputs of
/// add_layer_norm(a, dropout(b, p), weight, bias). The options are the same as for layer_norm. The pass `fuse` inserts
/// this op.
struct dropout_add_layer_norm {
  using options = layer_norm_options;
  static constexpr char const* name = "dropout_add_layer_norm";
  static constexpr unsigned in_place = 0b11;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    operand_types without_probability;
    for (int i = 0; i < in.size(); ++i)
      if (i != 2) without_probability.push_back(in[i]);
    return add_layer_norm::infer(without_probability, o);
  }
};

} // namespace constrain::op
