#pragma once

#include "constrain/model/refusals.hpp"
#include "constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Refuses a model without an input per token, and logits that do not have one row for each entry of such an input,
/// [sequences, tokens]. `refusal`: the error for such logits; its numbers are the numbers of dimensions or, if the
/// logits have three, the numbers of sequences or tokens.
template <template <diagnosis> class refusal> constexpr void needs_per_token(program& p, shape const& logits) {
  shape tokens;
  for (auto const& port : p.ports)
    if (port.kind == port_kind::input && port.spec.each == per::token) {
      auto const& input = p.values[port.where.value].shape;
      tokens = shape(input.extent[0], input.extent[1]);
    }
  if (tokens.rank == 0) return p.fail(diagnosis_with<refusals::no_input_per_token>());
  if (logits.rank != 3) return p.fail(diagnosis_with<refusal>(0, 0, 3, logits.rank));
  for (int i : {0, 1})
    if (logits.extent[i] != tokens.extent[i]) p.fail(diagnosis_with<refusal>(0, 0, tokens.extent[i], logits.extent[i]));
}

} // namespace detail

/// Causal language modeling: the mean cross-entropy of the next token, from logits [sequences, tokens, vocabulary] and
/// labels [sequences, tokens] (i32: the next token at each position, or `ignored_label`). Refused: token ids as logits,
/// logits without one row per token, and a model without an input per token.
struct causal_lm {
  static constexpr bool labels_are_next_tokens = true; // is_objective.hpp says which labels the trainer then refuses

  /// The logits do not have one row per token. `expected` and `got`: the numbers of dimensions if they differ,
  /// otherwise the numbers of sequences or tokens.
  template <diagnosis d> struct logits_are_not_per_token {
    static_assert(d.ok(),
                  "ct::causal_lm needs logits of shape [sequences, tokens, vocabulary], but the number of their "
                  "dimensions, sequences or tokens is `got` instead of `expected`; return one row of logits "
                  "per token, or use ct::classification for one label per sequence");
  };

  /// The loss, a scalar in nats per valid label.
  constexpr value operator()(value logits, value labels) const { return loss(logits, labels, {}); }
  /// The loss with `options` for the cross-entropy.
  static constexpr value loss(value logits, value labels, cross_entropy_options options) {
    detail::needs_per_token<logits_are_not_per_token>(logits.owner().program, logits.shape());
    return cross_entropy(logits, labels, options);
  }
};

/// Causal language modeling with label smoothing or z-loss in training:
///
///     using objective = ct::causal_lm_with<ct::cross_entropy_options{.label_smoothing = 0.1, .z_loss = 1e-4}>;
///
/// `evaluate` computes the plain cross-entropy. Refused: models and logits that `causal_lm` refuses, and an option out
/// of range.
template <cross_entropy_options options> struct causal_lm_with {
  static constexpr bool labels_are_next_tokens = true; // is_objective.hpp says which labels the trainer then refuses
  /// The loss, a scalar.
  constexpr value operator()(value logits, value labels) const { return causal_lm::loss(logits, labels, options); }
};

} // namespace constrain
