#pragma once

#include "constrain/base/number_check.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options of `cross_entropy` that change the loss in training. `evaluate` computes the plain cross-entropy.
struct cross_entropy_options {
  double label_smoothing = 0; // share of the target that is spread evenly over all classes, in [0, 1); 0: none
  double z_loss = 0;          // coefficient of the squared logsumexp, from 0 to 1e20; 0: none
};

namespace op {

/// The gradient of op::regularized_cross_entropy from dloss, logits, labels, the logsumexp of each row, and
/// `inverse_label_count`. dlogits has the shape of logits. With q = softmax(logits), s = label_smoothing and z =
/// z_loss:
///
///     dlogits = (q (1 + 2 z logsumexp) - (1 - s) one_hot(label) - s / classes) * dloss * inverse_label_count
///
/// dlogits = 0 in rows with an ignored label.
struct regularized_cross_entropy_gradient {
  using options = cross_entropy_options;
  static constexpr char const* name = "regularized_cross_entropy_gradient";
  static constexpr unsigned in_place = 0b10;
  static constexpr char const* layouts = "-, ..., ..., ..., - -> ...";
  static constexpr unsigned label_inputs = 0b100;
  static constexpr unsigned strided_inputs = 0b10;
  static constexpr unsigned strided_outputs = 0b1;

  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[1].type, in[1].shape); }
};

/// Like op::cross_entropy, but the loss of a row is
///
///     logsumexp - (1 - s) logits[label] - s mean(logits) + z logsumexp^2
///
/// s: `label_smoothing`, z: `z_loss`. The operands and outputs are the same as for op::cross_entropy.
struct regularized_cross_entropy {
  using options = cross_entropy_options;
  using in_evaluation = cross_entropy;
  static constexpr char const* name = "regularized_cross_entropy";
  static constexpr unsigned accumulating = cross_entropy::accumulating;
  static constexpr unsigned workspace = cross_entropy::workspace;
  static constexpr char const* layouts = cross_entropy::layouts;
  static constexpr unsigned label_inputs = cross_entropy::label_inputs;
  static constexpr unsigned strided_inputs = cross_entropy::strided_inputs;

  /// Refused: a label_smoothing outside [0, 1).
  template <diagnosis d> struct label_smoothing_is_out_of_range {
    static_assert(d.ok(), "ct::cross_entropy: .label_smoothing is not in [0, 1); give a number in this range, for "
                          "example 0.1");
  };
  /// Refused: a z_loss outside [0, 1e20].
  template <diagnosis d> struct z_loss_is_out_of_range {
    static_assert(d.ok(), "ct::cross_entropy: .z_loss is not in [0, 1e20]; give a number in this range, for example "
                          "1e-4");
  };

  static constexpr inferred infer(operand_types const& in, options const& o) {
    if (!constrain::detail::is_within(o.label_smoothing, number_range::below_one))
      return inferred::failure<label_smoothing_is_out_of_range>(0, 0);
    if (!(o.z_loss >= 0 && o.z_loss <= 1e20)) return inferred::failure<z_loss_is_out_of_range>(0, 0);
    return cross_entropy::infer(in);
  }
  static constexpr void gradient(backward& b) {
    b.emit<regularized_cross_entropy_gradient>({b.gradient(), b.input(0), b.input(1), b.output(1), b.input(2)}, {0},
                                               b.options<regularized_cross_entropy>());
  }
};

} // namespace op

/// `cross_entropy` with label smoothing (Szegedy et al. 2016, section 7) as in torch.nn.functional.cross_entropy, and
/// z-loss (Chowdhery et al. 2022, "PaLM", section 5), which keeps the logsumexp of the logits near 0. If both options
/// are 0, this is `cross_entropy` without options. Refused: everything that `cross_entropy` refuses, and an option out
/// of range.
constexpr value cross_entropy(value logits, value labels, cross_entropy_options options, int line = __builtin_LINE()) {
  if (options.label_smoothing == 0 && options.z_loss == 0) return cross_entropy(logits, labels, line);
  labels.owner().program.limit(labels.where(), logits.features(), true);
  return emit<op::regularized_cross_entropy>({logits, labels, inverse_label_count(labels)}, options, line);
}

} // namespace constrain
