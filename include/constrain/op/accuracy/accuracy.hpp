#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// y (+)= the number of rows in which the label is the argmax of the logits; of equal logits, the first is the argmax.
/// Rows with the label `ignored_label` do not count. logits [..., classes], labels [...] -> scalar, fp64. (+)=: the
/// first write in a run of the program overwrites the output, later writes add to it. Only the program of `evaluate`
/// contains this op.
struct correct_predictions {
  static constexpr char const* name = "correct_predictions";
  static constexpr unsigned accumulating = 0b1;
  static constexpr char const* layouts = "... -> -";
  static constexpr unsigned label_inputs = 0b10;

  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f64, {}); }
};

} // namespace constrain::op
