#pragma once

#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Predicts the next token: logits [sequences, tokens, vocabulary], labels [sequences, tokens], already shifted.
struct causal_lm {
  constexpr value operator()(value logits, value labels) const { return cross_entropy(logits, labels); }
};

} // namespace constrain
