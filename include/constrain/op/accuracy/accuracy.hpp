#pragma once

#include "constrain/program/backward.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// How many valid labels are the index of their row's largest logit (the first of equals). Evaluation adds it.
struct correct_predictions {
  static constexpr char const* name = "correct_predictions";

  static constexpr inferred infer(operand_types const&, attributes const&) { return inferred::one(dtype::f64, {}); }
};

} // namespace constrain::op
