#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The number of labels that are the argmax of their row (the first of equal logits); `ignored_label` is not counted.
/// logits [..., classes], labels [...] -> scalar, fp64. Only the evaluation program contains this op.
struct correct_predictions {
  static constexpr char const* name = "correct_predictions";

  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f64, {}); }
};

} // namespace constrain::op
