#pragma once

#include <constrain/constrain.hpp>

#include <random>
#include <vector>

namespace constrain::test {

#if !defined(CONSTRAIN_CUDA_ARCHITECTURE)
#define CONSTRAIN_CUDA_ARCHITECTURE 80
#endif
using device_policy = device::cuda<sm<CONSTRAIN_CUDA_ARCHITECTURE>>;
using target = device_policy::target;

template <int layers, int heads, int width, int vocabulary, int context, int sequences>
using gpt = task<gpt2{.layers = layers, .heads = heads, .width = width, .vocabulary = vocabulary, .context = context}, causal_lm,
                 micro_batch{.sequences = sequences}>;

/// Ops that a GPT has not: gates, means, a frozen scale, a captured value, dropout of an activation.
struct gated {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 41, .width = 20});
    auto const y = repeat("block", 3, x, [&](value z) {
      auto const normed = layer_norm("norm", z);
      return z + dropout(linear("down", silu(linear("gate", normed, 12)) * gelu(linear("up", normed, 12)), 20));
    });
    return linear("head", mean(y + x, axis::tokens), 5);
  }
};
using classifier = task<gated{}, classification, micro_batch{.sequences = 3, .tokens = 19}>;

/// A window's arrays, every fifth label ignored.
struct token_arrays {
  std::vector<std::int32_t> inputs, labels;
  std::int64_t valid = 0;
};
template <class trainer> token_arrays tokens_for(unsigned seed) {
  std::mt19937 random(seed);
  token_arrays w;
  w.inputs.resize(static_cast<std::size_t>(trainer::window_tokens));
  w.labels.resize(static_cast<std::size_t>(trainer::micro_batches * trainer::entries::labels));
  for (auto& token : w.inputs) token = static_cast<std::int32_t>(random() % static_cast<unsigned>(trainer::entries::vocabulary));
  for (std::size_t i = 0; i < w.labels.size(); ++i) {
    bool const ignored = i % 5 == 3;
    w.labels[i] = ignored ? ignored_label : static_cast<std::int32_t>(random() % static_cast<unsigned>(trainer::entries::logits.features()));
    w.valid += ignored ? 0 : 1;
  }
  return w;
}

} // namespace constrain::test
