#pragma once

#include "constrain/model/objective/causal_lm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Masked language modeling (Devlin et al. 2019, "BERT", section 3.1): the mean cross-entropy of the original tokens at
/// the masked positions, from logits [sequences, tokens, vocabulary] and labels [sequences, tokens] (i32: the original
/// token at a masked position, `ignored_label` elsewhere). Refused: token ids as logits, and logits without one row per
/// token.
struct masked_lm {
  /// The loss, a scalar in nats per masked token.
  constexpr value operator()(value logits, value labels) const { return causal_lm::loss(logits, labels, {}); }
};

} // namespace constrain
