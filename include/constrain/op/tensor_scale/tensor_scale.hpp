#pragma once

#include "constrain/op/gradient_norm/gradient_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// With `optimizer::in_backward`, the scale of the update of one tensor: the squared norm of the tensor's gradient
/// (fp64 [1]) -> [norm, scale], fp64. The scale is 1, or 0 if the norm is not finite; with 0, the tensor and its
/// optimizer states keep their values. Adds the squared norm to element `index` of output 1, the squared norms of all
/// gradients (fp64 [gradients]). The first call in a run of the program sets all elements to 0 before it adds.
struct tensor_scale {
  using options = squared_norm_options;
  static constexpr char const* name = "tensor_scale";
  static constexpr unsigned accumulating = 0b10;

  static constexpr inferred infer(operand_types const&, options const& o) {
    return inferred::one(dtype::f64, shape(2)).and_also(dtype::f64, shape(o.gradients));
  }
};

} // namespace constrain::op
