#pragma once

#include "cuda/tasks.hpp"

namespace constrain::test {

/// Six heads of queries that share two of keys and values.
struct grouped_model {
  bool causal;
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 31, .width = 30});
    auto const y = self_attention(x, {.heads = 6, .causal = causal, .key_value_heads = 2});
    return linear("head", y, 31);
  }
};
template <bool causal>
using grouped = task<grouped_model{causal}, causal_lm, micro_batch{.sequences = 2, .tokens = 19}>;

} // namespace constrain::test
