#pragma once

#include <constrain/constrain.hpp>

// Models whose attention has documents or a sliding window.

namespace constrain::test {

/// Attention with rotary position embeddings, whose positions start anew with each document.
struct documents_model {
  int head_width, window;
  bool causal;
  static constexpr constrain::port_spec inputs[] = {{.name = "tokens"}, {.name = "positions"}};
  constexpr constrain::value operator()(constrain::value tokens, constrain::value positions) const {
    auto const x = constrain::embedding("token", tokens, {.vocabulary = 31, .width = 20});
    auto const angles = constrain::rotary_table(x, {.head_width = head_width});
    auto const q = constrain::rotary_embedding(constrain::linear("query", x, 4 * head_width), angles, positions);
    auto const k = constrain::rotary_embedding(constrain::linear("key", x, 2 * head_width), angles, positions);
    auto const v = constrain::linear("value", x, 2 * head_width);
    constrain::attention_options const options{
        .heads = 4, .causal = causal, .key_value_heads = 2, .window = window, .documents = true};
    return constrain::linear("head", constrain::self_attention(q, k, v, positions, options), 31);
  }
};
template <int head_width, int window, bool causal, int tokens>
using documents = constrain::task<documents_model{head_width, window, causal}, constrain::causal_lm,
                                  constrain::micro_batch{.sequences = 3, .tokens = tokens}>;

/// Padded sequences. The window after the end of a sequence may hold only padding.
struct window_model {
  bool causal;
  static constexpr constrain::port_spec inputs[] = {{.name = "tokens"},
                                                    {.name = "lengths", .each = constrain::per::sequence}};
  constexpr constrain::value operator()(constrain::value tokens, constrain::value lengths) const {
    auto const qkv = constrain::embedding("token", tokens, {.vocabulary = 31, .width = 30});
    return constrain::linear("head",
                             constrain::self_attention(qkv, lengths, {.heads = 2, .causal = causal, .window = 4}), 31);
  }
};
template <bool causal, int tokens = 37>
using window = constrain::task<window_model{causal}, constrain::causal_lm,
                               constrain::micro_batch{.sequences = 5, .tokens = tokens}>;

} // namespace constrain::test
