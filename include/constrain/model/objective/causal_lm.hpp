#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Predicts the next token: logits [sequences, tokens, vocabulary], labels [sequences, tokens], already shifted. Logits
/// that are not a row for every token are refused.
struct causal_lm {
  constexpr value operator()(value logits, value labels) const {
    auto& program = logits.owner().program;
    if (labels.shape() != program.values[program.tokens.value].shape)
      program.fail({why::logits_have_no_tokens, 0, 0, 3, logits.shape().rank});
    return cross_entropy(logits, labels);
  }
};

} // namespace constrain
