#pragma once

#include "constrain/base/label.hpp"
#include "constrain/program/value.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// For class c, y[0, c] (+)= the number of rows whose label and prediction are both c, y[1, c] (+)= the number of rows
/// whose prediction is c, and y[2, c] (+)= the number of rows whose label is c. The prediction is the argmax of the
/// logits that are not NaN; of equal logits, the first. If all logits are NaN, there is no prediction. Rows with the
/// label `ignored_label` do not count. logits [..., classes], labels [...] (i32) -> [3, classes], fp64. (+)=: the first
/// write in a run of the program overwrites the output; later writes add to it. Output 1 is scratch, [rows], i32: the
/// prediction of each row, or the number of classes if there is none; -1 for an ignored row. Only the program of
/// `evaluate` contains this op.
struct class_counts {
  static constexpr char const* name = "class_counts";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b10;
  static constexpr char const* layouts = "... -> -, ...";
  static constexpr unsigned label_inputs = 0b10;
  static constexpr unsigned strided_inputs = 0b1;

  static constexpr inferred infer(operand_types const& in) {
    return inferred::one(dtype::f64, shape(3, in[0].shape.features())).and_also(dtype::i32, shape(in[0].shape.rows()));
  }
};

} // namespace constrain::op
