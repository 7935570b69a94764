#pragma once

#include "constrain/model/metric/f1.hpp"
#include "constrain/model/metric/metrics.hpp"
#include "constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Classification: the mean cross-entropy of one class per row of logits, from logits [..., classes] and labels [...]
/// (i32: the class, or `ignored_label`). To classify sequences, the logits are [sequences, classes]; to classify
/// tokens, [sequences, tokens, classes]. Refused: token ids as logits.
struct classification {
  using metrics = constrain::metrics<macro_f1, binary_f1>; // `evaluate` also reports loss, accuracy and perplexity
  static constexpr bool labels_are_next_tokens = false; // a corpus, which labels tokens with the next ones, is refused

  /// The loss, a scalar in nats per valid label.
  constexpr value operator()(value logits, value labels) const { return cross_entropy(logits, labels); }
};

/// `classification` with label smoothing or z-loss in training; `evaluate` computes the plain cross-entropy. Refused:
/// token ids as logits, and an option out of range.
template <cross_entropy_options options> struct classification_with {
  using metrics = constrain::metrics<macro_f1, binary_f1>; // `evaluate` also reports loss, accuracy and perplexity
  static constexpr bool labels_are_next_tokens = false; // a corpus, which labels tokens with the next ones, is refused

  /// The loss, a scalar.
  constexpr value operator()(value logits, value labels) const { return cross_entropy(logits, labels, options); }
};

} // namespace constrain
