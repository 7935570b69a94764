#pragma once

#include "constrain/base/label.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// The rows in the order in which those with a valid label (not `ignored_label`) come first; both parts keep their
/// order. labels [...] (i32) -> row numbers [rows] (i32), a permutation of 0, 1, ..., rows - 1. The pass
/// `loop_over_rows` inserts this op.
struct valid_first {
  static constexpr char const* name = "valid_first";

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(dtype::i32, shape(in[0].shape.elements()));
  }
};

} // namespace constrain::op
