#pragma once

#include "cuda/tasks.hpp"

namespace constrain::test {

/// Padded sequences: attention of `heads` query heads, two of which share a head of keys and values, and their lengths.
struct padded_model {
  int heads, head_width;
  bool causal;
  static constexpr port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = per::sequence}};
  constexpr value operator()(value tokens, value lengths) const {
    auto const x = embedding("token", tokens, {.vocabulary = 31, .width = 20});
    auto const qkv = linear("qkv", x, 2 * heads * head_width);
    auto const y = self_attention(qkv, lengths, {.heads = heads, .causal = causal, .key_value_heads = heads / 2});
    return linear("head", y, 31);
  }
};
template <int heads, int head_width, bool causal, int tokens>
using padded = task<padded_model{heads, head_width, causal}, causal_lm, micro_batch{.sequences = 5, .tokens = tokens}>;

} // namespace constrain::test
