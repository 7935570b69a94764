#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Classification of sequences: the mean cross-entropy of one class per sequence. logits [sequences, classes], labels
/// [sequences] (i32: the class, or `ignored_label`). Refused: token ids as logits.
struct classification {
  /// The loss, a scalar in nats per valid label.
  constexpr value operator()(value logits, value labels) const { return cross_entropy(logits, labels); }
};

} // namespace constrain
