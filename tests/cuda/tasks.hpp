#pragma once

#include <constrain/constrain.hpp>

#include <cstring>
#include <random>
#include <vector>

namespace constrain::test {

#if !defined(CONSTRAIN_CUDA_ARCHITECTURE)
#define CONSTRAIN_CUDA_ARCHITECTURE 80
#endif
using device_policy = device::cuda<sm<CONSTRAIN_CUDA_ARCHITECTURE>>;
using target = device_policy::target;

template <int layers, int heads, int width, int vocabulary, int context, int sequences>
using gpt = task<gpt2{.layers = layers, .heads = heads, .width = width, .vocabulary = vocabulary, .context = context},
                 causal_lm, micro_batch{.sequences = sequences}>;

/// Ops that a GPT has not: gates, means, a captured value, dropout of an activation, capped logits.
struct gated {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 41, .width = 20});
    auto const y = repeat("block", 3, x, [&](value z) {
      auto const normed = layer_norm("norm", z);
      return z + dropout(linear("down", silu(linear("gate", normed, 12)) * gelu(linear("up", normed, 12)), 20));
    });
    return soft_cap(linear("head", mean(y + x, axis::tokens), 5), 3);
  }
};
inline constexpr cross_entropy_options regularized{.label_smoothing = 0.1, .z_loss = 0.01};
using classifier = task<gated{}, classification_with<regularized>, micro_batch{.sequences = 3, .tokens = 19}>;

/// A batch's arrays, every fifth label ignored.
struct token_arrays {
  std::vector<std::int32_t> inputs, labels;
  std::int64_t valid = 0;
};
template <class trainer> token_arrays tokens_for(unsigned seed) {
  std::mt19937 random(seed);
  token_arrays w;
  w.inputs.resize(static_cast<std::size_t>(trainer::batch_tokens));
  w.labels.resize(static_cast<std::size_t>(trainer::micro_batches * trainer::entries::labels));
  for (auto& token : w.inputs)
    token = static_cast<std::int32_t>(random() % static_cast<unsigned>(trainer::entries::vocabulary));
  for (std::size_t i = 0; i < w.labels.size(); ++i) {
    bool const ignored = i % 5 == 3;
    w.labels[i] =
        ignored ? ignored_label
                : static_cast<std::int32_t>(random() % static_cast<unsigned>(trainer::entries::logits.features()));
    w.valid += ignored ? 0 : 1;
  }
  return w;
}

/// A model for whole trainings: a tiny one where the host plays the device.
#if defined(CONSTRAIN_ON_HOST)
using small = gpt<2, 2, 16, 67, 11, 2>;
#else
using small = gpt<5, 4, 128, 257, 130, 3>;
#endif
inline run_options const numbers{
    .seed = 4, .clip_norm = 1, .schedule = schedule::cosine{.warmup = 4, .steps = 20}, .dropout = 0.1};

/// Trains on three batches in turn, from batch `first` on.
template <class trainer> std::vector<double> losses_of(trainer& t, int steps, unsigned first = 0) {
  std::vector<double> losses;
  for (unsigned i = first; i < first + static_cast<unsigned>(steps); ++i) {
    auto const w = tokens_for<trainer>(i % 3);
    losses.push_back(t.step(t.batch(w.inputs, w.labels)).loss);
  }
  return losses;
}

template <class trainer> std::vector<double> weights_of(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline bool same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

} // namespace constrain::test
