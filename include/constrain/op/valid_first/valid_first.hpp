#pragma once

#include "constrain/base/label.hpp"
#include "constrain/program/op_info.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// A stable partition of the row indices 0, 1, ..., rows - 1: first the rows with a valid label (not `ignored_label`),
/// then the other rows. labels [...] (i32) -> row indices [rows] (i32). The pass `loop_over_rows` inserts this op.
struct valid_first {
  static constexpr char const* name = "valid_first";

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(dtype::i32, shape(in[0].shape.elements()));
  }
};

} // namespace constrain::op
