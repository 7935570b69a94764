#pragma once

#include "constrain/op/cross_entropy_parts/cross_entropy_parts.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::op {

/// op::correct_predictions for logits whose classes are divided over the ranks of a tensor group (class_range_options):
/// logits [..., columns of one rank], labels [...] (i32). For each row, each rank finds the maximum logit among its
/// classes, and the ranks exchange the maxima and their classes. Output 0 (+)= the number of correct predictions, as in
/// op::correct_predictions; it is the same on every rank. Output 1 is the exchange buffer, [ranks, rows, 2], fp64: for
/// each rank and row, the maximum and its class, or 0 and -1 if all the rank's logits in the row are NaN.
struct correct_predictions_parts {
  using options = class_range_options;
  static constexpr char const* name = "correct_predictions_parts";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b10;
  static constexpr bool exchanges = true;
  static constexpr bool same_data = true;

  static constexpr inferred infer(operand_types const& in, options const& o) {
    return inferred::one(dtype::f64, {}).and_also(dtype::f64, shape(o.ranks, in[0].shape.rows(), 2));
  }
};

/// y (+)= the number of rows in which the label is the argmax of the logits; of equal logits, the first is the argmax.
/// A logit that is NaN is never the argmax. Rows with the label `ignored_label` do not count. logits [..., classes],
/// labels [...] (i32) -> scalar, fp64. (+)=: the first write in a run of the program overwrites the output; later
/// writes add to it. Only the program of `evaluate` contains this op.
struct correct_predictions {
  static constexpr char const* name = "correct_predictions";
  static constexpr unsigned accumulating = 0b1;
  static constexpr char const* layouts = "... -> -";
  static constexpr unsigned label_inputs = 0b10;
  static constexpr unsigned strided_inputs = 0b1;

  static constexpr inferred infer(operand_types const&) { return inferred::one(dtype::f64, {}); }

  /// Appends the form of node `n` for logits whose classes are divided over the ranks of a tensor group.
  static constexpr void divided_form(builder& out, node const& n) {
    out.append(info_of<correct_predictions_parts>, with_class_range(out, n));
  }
};

} // namespace constrain::op
