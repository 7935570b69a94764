#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Causal language modeling: the mean cross-entropy of the next token. logits [sequences, tokens, vocabulary], labels
/// [sequences, tokens] (i32: the next token at each position, or `ignored_label`). Refused: token ids as logits,
/// and logits without one row per token.
struct causal_lm {
  /// The loss, a scalar in nats per valid label.
  constexpr value operator()(value logits, value labels) const {
    auto& program = logits.owner().program;
    if (labels.shape() != program.values[program.tokens.value].shape)
      program.fail({why::logits_have_no_tokens, 0, 0, 3, logits.shape().rank});
    return cross_entropy(logits, labels);
  }
};

} // namespace constrain
