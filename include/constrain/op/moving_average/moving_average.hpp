#pragma once

#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The exponential moving average of a parameter, after its update: average = decay average + (1 - decay) weight; after
/// the first update, average = weight. Inputs: weight, clip [norm, scale], the `step_hyperparameters` of `optimizer` as
/// bytes, with the field `decay`. Output, which is also read: the average. If scale is 0, nothing changes.
template <class optimizer> struct moving_average {
  static constexpr char const* name = "moving_average";
  static constexpr unsigned accumulating = 0b1; // the output is also read
  static constexpr char const* layouts = "*, - -> *";
  static constexpr bool guarded = true;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
};

} // namespace constrain::op
