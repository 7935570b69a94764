#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/model/metric/metrics.hpp"
#include "constrain/program/shape.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Result of one optimizer step, over all ranks. A valid label is a label other than `ignored_label` in the first array
/// of labels.
struct step_result {
  double loss = 0;             // before the update; with the library's losses: mean over the batch's valid labels
  double gradient_norm = 0;    // L2 norm of all gradients together, before clipping
  std::int64_t tokens = 0;     // number of valid labels in the batch
  bool skipped = false;        // the gradient norm is not finite, so weights and optimizer states are unchanged
  std::string_view not_finite; // name of the first parameter whose gradient has a norm that is not finite; empty: none.
                               // With optimizer::in_backward, `skipped` is false, and all tensors are updated except
                               // the tensors whose gradient has a norm that is not finite
  int more_not_finite = 0;     // number of further parameters whose gradient has a norm that is not finite
};

/// Result of an evaluation. A valid label is a label other than `ignored_label` in the first array of labels.
struct evaluation {
  double loss = 0;         // mean over all valid labels (causal_lm, masked_lm, classification: cross-entropy in nats);
                           // with your own loss: mean of the micro-batches' losses, weighted by their numbers of valid
                           // labels; inexact if the last micro-batch is not full and cannot be padded, unless the loss
                           // is a sum over rows, divided by the number of valid labels (model/is_objective.hpp)
  double perplexity = 0;   // exp(loss); NaN if the labels are not classes
  double accuracy = 0;     // share of valid labels whose class has the largest logit; NaN if the labels are not classes
  std::int64_t tokens = 0; // number of valid labels
  metric_values metrics{}; // the objective's metrics, such as macro_f1, that apply to this number of classes

  /// The value of the metric `name`; nullopt if the objective has no such metric, or if the metric does not apply to
  /// the number of classes.
  std::optional<double> metric(std::string_view name) const {
    for (auto const& m : metrics)
      if (m.name == name) return m.value;
    return std::nullopt;
  }
};

namespace detail {

/// Sums over the valid labels of an evaluation.
struct evaluation_sums {
  double loss = 0, correct = 0;       // sum of the losses; number of correct predictions
  std::int64_t tokens = 0;            // number of valid labels
  std::vector<double> class_counts{}; // [3, classes]: counts of op::class_counts; empty: no metrics or no valid label
};

/// Throws `error` if `has_labels` is false. `has_labels`: whether the data of `evaluate` has a valid label.
[[gnu::noinline]] inline void check_has_labels(bool has_labels) {
  if (!has_labels) throw error("evaluate: every label is ignored, so there is no loss; pass at least one valid label");
}

/// The evaluation with these sums: loss and accuracy are the sums divided by the number of valid labels, which must not
/// be 0; `metrics` is empty. `classifies`: whether the labels are classes; if not, accuracy and perplexity are NaN.
[[gnu::noinline]] inline evaluation mean_of(evaluation_sums const& sum, bool classifies = true) {
  auto const count = static_cast<double>(sum.tokens);
  evaluation mean{.loss = sum.loss / count, .accuracy = sum.correct / count, .tokens = sum.tokens};
  mean.perplexity = libm::exp(mean.loss);
  if (!classifies) mean.accuracy = mean.perplexity = std::numeric_limits<double>::quiet_NaN();
  return mean;
}

} // namespace detail

/// The logits of one micro-batch, copied out of the arena. `real`: float, or double if the precision is fp64.
template <class real> struct prediction {
  std::vector<real> logits; // row-major
  constrain::shape shape;   // for example [sequences, tokens, vocabulary] or [sequences, classes]
};

} // namespace constrain
