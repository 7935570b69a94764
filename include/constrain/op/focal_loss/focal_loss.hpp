#pragma once

#include "constrain/base/label.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/op/refusals.hpp"
#include "constrain/program/backward.hpp"
#include "constrain/program/setting.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `focal_loss`.
struct focal_loss_options {
  double gamma = 2; // exponent of 1 - p (p: the label's probability), finite, at least 0; 0: cross-entropy
};

namespace op {

/// The gradient of op::focal_loss from dloss, logits, labels, the logsumexp of each row, and `inverse_label_count`.
/// With q = softmax(logits) and p = q[label]:
///
///     dlogits = (q - one_hot(label)) ((1 - p)^gamma - gamma p (1 - p)^(gamma - 1) log p) * dloss * inverse_label_count
///
/// dlogits = 0 in rows with an ignored label.
struct focal_loss_gradient {
  using options = focal_loss_options;
  static constexpr char const* name = "focal_loss_gradient";
  static constexpr unsigned in_place = 0b10;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[1].type, in[1].shape); }
};

/// Inputs: logits, labels, and `inverse_label_count`. Output 0: loss (+)= `inverse_label_count` times the sum of
/// -(1 - p)^gamma log p over the rows with a valid label, where p = softmax(logits)[label]. (+)=: the first write in a
/// run of the program overwrites the output; later writes add to it. Output 1 is the logsumexp of each row, for the
/// backward pass. Output 2 is scratch: the loss of each row, so that the losses are added in a fixed order.
struct focal_loss {
  using options = focal_loss_options;
  static constexpr char const* name = "focal_loss";
  static constexpr unsigned accumulating = 0b1;
  static constexpr unsigned workspace = 0b100;

  /// Refused: labels that are not i32, or not of shape [...] for logits of shape [..., classes]. `expected` and `got`:
  /// the numbers of labels.
  template <diagnosis d> struct labels_do_not_fit_the_logits {
    static_assert(d.ok(), "ct::focal_loss needs one integer label per row of logits: logits [..., classes], labels "
                          "[...]; there are `expected` rows and `got` labels; change the shape of one of them, or "
                          "declare the labels with .type = ct::port_type::ids");
  };
  /// Refused: a gamma that is negative or not finite.
  template <diagnosis d> struct gamma_is_out_of_range {
    static_assert(d.ok(),
                  "ct::focal_loss: gamma is negative or not finite; give a finite number of at least 0, for example 2");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (auto const refusal = needs_reals(in); refusal.reason != why::nothing) return refusal;
    auto const labels = in[0].shape.rank < 1 ? shape{} : in[0].shape.without(in[0].shape.rank - 1);
    if (in[1].type != dtype::i32 || in[1].shape != labels)
      return inferred::failure<labels_do_not_fit_the_logits>(labels.elements(), in[1].shape.elements());
    if (!constrain::detail::is_within(o.gamma, number_range::from_zero))
      return inferred::failure<gamma_is_out_of_range>(0, 0);
    auto const rows = shape(in[0].shape.rows());
    return inferred::one(dtype::f64, {}).and_also(accumulator_of(in[0].type), rows).and_also(dtype::f64, rows);
  }
  static constexpr void gradient(backward& b) {
    b.emit<focal_loss_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1), b.input(2)}, {0},
                                b.options<focal_loss>());
  }
};

} // namespace op

/// Softmax focal loss (Lin et al. 2017, "Focal Loss for Dense Object Detection", equation 4), a scalar: the sum of
/// -(1 - p)^gamma log p over the valid labels (not `ignored_label`) of the batch, divided by the number of valid labels
/// in the objective's first label array (`inverse_label_count`). Here p is softmax(logits)[label]. If `labels` is the
/// first label array, the loss is the mean over the valid labels. As in `cross_entropy`, the valid labels are counted
/// over the whole batch in a step, and over each micro-batch in an evaluation. A step without a valid label throws
/// `error`; an evaluation skips micro-batches without one. With a gamma above 0, well-classified rows have less weight
/// than in `cross_entropy`. Shapes: logits [..., classes], labels [...]. Labels are i32, in [0, classes) or
/// `ignored_label`. Refused: token ids as logits, labels that are not i32 or not of shape [...], and a gamma that is
/// negative or not finite.
constexpr value focal_loss(value logits, value labels, focal_loss_options options = {}, int line = __builtin_LINE()) {
  labels.owner().program.limit(labels.where(), logits.features(), true);
  return emit<op::focal_loss>({logits, labels, inverse_label_count(labels)}, options, line);
}

} // namespace constrain
