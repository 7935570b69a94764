#pragma once

#include "constrain/model/objective/causal_lm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Masked language modeling (Devlin et al. 2019, "BERT", section 3.1): the mean cross-entropy of the original tokens at
/// the masked positions, from logits [sequences, tokens, vocabulary] and labels [sequences, tokens] (i32: the original
/// token at a masked position, `ignored_label` elsewhere). Labels that equal the inputs are not refused, but teach the
/// model only to copy: mask the inputs with `data::examples::with_masks`. Refused: token ids as logits, logits without
/// one row per token, a model without an input per token, and a corpus: it has no masks (`data::examples::with_masks`).
struct masked_lm {
  static constexpr bool labels_are_next_tokens = false; // a corpus, which labels tokens with the next ones, is refused

  /// The logits do not have one row per token. `expected` and `got`: the numbers of dimensions if they differ,
  /// otherwise the numbers of sequences or tokens.
  template <diagnosis d> struct logits_are_not_per_token {
    static_assert(d.ok(),
                  "ct::masked_lm needs logits of shape [sequences, tokens, vocabulary], but the number of their "
                  "dimensions, sequences or tokens is `got` instead of `expected`; return one row of logits "
                  "per token (ct::bert does so without .classes), or use ct::classification");
  };

  /// The loss, a scalar in nats per masked token.
  constexpr value operator()(value logits, value labels) const {
    detail::needs_per_token<logits_are_not_per_token>(logits.owner().program, logits.shape());
    return cross_entropy(logits, labels);
  }
};

} // namespace constrain
