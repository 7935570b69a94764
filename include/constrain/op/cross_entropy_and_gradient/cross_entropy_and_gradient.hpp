#pragma once

#include "constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// op::regularized_cross_entropy and its gradient fused, row by row: logits [..., classes], labels [...],
/// `inverse_label_count` and dloss -> dlogits, the loss, and scratch for the loss of each row. dlogits usually
/// overwrites the logits. The first write in a run of the program overwrites the loss; later writes add to it. With the
/// default options, this is op::cross_entropy and its gradient. The pass `fuse` inserts this op.
struct cross_entropy_and_gradient {
  using options = cross_entropy_options;
  static constexpr char const* name = "cross_entropy_and_gradient";
  static constexpr unsigned in_place = 0b1;
  static constexpr unsigned accumulating = 0b10;
  static constexpr unsigned workspace = 0b100;
  static constexpr unsigned label_inputs = 0b10;
  static constexpr unsigned strided_inputs = 0b1;
  static constexpr unsigned strided_outputs = 0b1;

  static constexpr inferred infer(operand_types const& in, options const&) {
    return inferred::one(in[0].type, in[0].shape)
        .and_also(dtype::f64, {})
        .and_also(dtype::f64, shape(in[0].shape.rows()));
  }
};

} // namespace constrain::op
