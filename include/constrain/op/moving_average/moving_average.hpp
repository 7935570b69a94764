#pragma once

#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The exponential moving average of a parameter, computed after each update of the parameter: average = decay *
/// average + (1 - decay) * weight. After update number 1, average = weight. Inputs: weight, norm_and_scale [2]
/// (op::clip_coefficient or op::tensor_scale), and the `step_hyperparameters` of `optimizer` as bytes; the
/// hyperparameters must have the field `decay`. The output, the average, has the type and shape of the weight, and is
/// also read. If scale is 0, the average keeps its value.
template <class optimizer> struct moving_average {
  static constexpr char const* name = "moving_average";
  static constexpr unsigned accumulating = 0b1; // the output is also read
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

} // namespace constrain::op
