#pragma once

#include "constrain/base/label.hpp"
#include "constrain/op/cross_entropy_parts/cross_entropy_parts.hpp"
#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/setting.hpp"

#include <concepts>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace op {

/// The gradient of op::cross_entropy from dloss, logits, labels, the logsumexp of each row, and `inverse_label_count`:
/// dlogits = (softmax(logits) - one_hot(label)) * dloss * `inverse_label_count`; 0 in rows with an ignored label.
struct cross_entropy_gradient {
  static constexpr char const* name = "cross_entropy_gradient";
  static constexpr unsigned in_place = 0b10;
  static constexpr char const* layouts = "-, ..., ..., ..., - -> ...";
  static constexpr unsigned label_inputs = 0b100;
  static constexpr unsigned strided_inputs = 0b10;
  static constexpr unsigned strided_outputs = 0b1;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[1].type, in[1].shape); }
};

/// From logits, labels, and `inverse_label_count`: loss (+)= the sum over rows with a valid label (not `ignored_label`)
/// of logsumexp(logits) - logits[label], times `inverse_label_count`. (+)=: the first write in a run of the program
/// overwrites the output; later writes add to it. Output 1 is the logsumexp of each row, for the backward pass. Output
/// 2 is scratch: the loss of each row, so that the losses are added in a fixed order.
struct cross_entropy {
  static constexpr char const* name = "cross_entropy";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b100;
  static constexpr char const* layouts = "..., ..., - -> -, ...";
  static constexpr unsigned label_inputs = 0b10;
  static constexpr unsigned strided_inputs = 0b1;

  /// Refused: labels that are not i32, or not of shape [...] for logits of shape [..., classes]. `expected` and `got`:
  /// the numbers of labels.
  template <diagnosis d> struct labels_do_not_fit_the_logits {
    static_assert(d.ok(), "ct::cross_entropy needs one integer label per row of logits: logits [..., classes], labels "
                          "[...]; there are `expected` rows and `got` labels; change the shape of one of them, or "
                          "declare the labels with .type = ct::port_type::ids");
  };

  static constexpr inferred infer(operand_types const& in) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    auto const labels = in[0].shape.rank < 1 ? shape{} : in[0].shape.without(in[0].shape.rank - 1);
    if (in[1].type != dtype::i32 || in[1].shape != labels)
      return inferred::failure<labels_do_not_fit_the_logits>(labels.elements(), in[1].shape.elements());
    auto const rows = shape(in[0].shape.rows());
    return inferred::one(dtype::f64, {}).and_also(accumulator_of(in[0].type), rows).and_also(dtype::f64, rows);
  }
  static constexpr void gradient(backward& b) {
    b.emit<cross_entropy_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1), b.input(2)}, {0});
  }

  /// Appends the form of node `n` for logits whose classes are divided over the ranks of a tensor group.
  static constexpr void divided_form(builder& out, node const& n) {
    out.append(info_of<cross_entropy_parts>, with_class_range(out, n));
  }
};

} // namespace op

/// Softmax cross-entropy, a scalar: the mean of -log softmax(logits)[label] over the valid labels (not `ignored_label`)
/// of the batch, if `labels` is the objective's first label array. For another array, the sum is divided by the number
/// of valid labels in the first array (`inverse_label_count`). Shapes: logits [..., classes], labels [...]. Labels are
/// i32, in [0, classes) or `ignored_label`. In a step, every micro-batch on every rank divides by the number of valid
/// labels in the whole batch, so that the losses of the micro-batches add up to the loss of the batch. In an
/// evaluation, each micro-batch divides by the number of valid labels in this micro-batch. A step without a valid label
/// throws `error`; an evaluation skips micro-batches without one. Refused: token ids as logits, and labels that are not
/// i32 or whose shape does not fit the logits.
constexpr value cross_entropy(value logits, value labels, int line = __builtin_LINE()) {
  labels.owner().program.limit(labels.where(), logits.features(), true);
  return emit<op::cross_entropy>({logits, labels, inverse_label_count(labels)}, {}, line);
}
/// Does not compile: the options are a `cross_entropy_options`, not a number.
template <std::floating_point real> constexpr value cross_entropy(value logits, value labels, real) {
  static_assert(sizeof(real) == 0, "ct::cross_entropy: the third argument is a number; pass ct::cross_entropy_options, "
                                   "for example {.label_smoothing = 0.1}");
  return cross_entropy(logits, labels);
}

} // namespace constrain
