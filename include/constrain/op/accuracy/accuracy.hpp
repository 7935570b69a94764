#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The number of rows in which the label is the argmax of the logits; of equal logits, the first is the argmax. Rows
/// with the label `ignored_label` do not count. logits [..., classes], labels [...] -> scalar, fp64. Only the program
/// of `evaluate` contains this op.
struct correct_predictions {
  static constexpr char const* name = "correct_predictions";

  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f64, {}); }
};

} // namespace constrain::op
