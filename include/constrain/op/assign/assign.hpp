#pragma once

#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// Stores a tensor, converted to the type `to`, in the output, if the gradient norm is finite. The output is a
/// parameter, the fp32 working copy of a parameter that is stored in 16 bits, an optimizer state or a gradient. Inputs:
/// the tensor and norm_and_scale, [norm, scale] (op::clip_coefficient or op::tensor_scale). If the norm is not finite,
/// scale is 0, and the output keeps its values.
struct assign {
  struct options {
    dtype to = dtype::f32; // type of the output's elements
  };
  static constexpr char const* name = "assign";
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(o.to, in[0].shape);
  }
};

} // namespace constrain::op
