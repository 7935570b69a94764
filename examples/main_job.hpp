#pragma once

#include <constrain/constrain.hpp>

// The main job of gpt.cpp and of the comparison with PyTorch (bench/peers/): a byte-level GPT of about 5 million
// parameters. By default, gpt.cpp trains this model on 1 million tokens.

namespace main_job {

namespace ct = constrain;

inline constexpr ct::gpt2 model{.layers = 6, .heads = 4, .width = 256, .vocabulary = 256, .context = 128};

using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 8}>;
using trainer = ct::trainer<task, ct::precision::fp32, ct::optimizer::adamw, ct::accumulate<2>>;

static_assert(trainer::memory.peak <= ct::mebibytes(200));

inline constexpr trainer::hyper hyperparameters{.learning_rate = 2e-3f, .beta2 = 0.98f, .weight_decay = 0.1f};

inline ct::run_options run(std::int64_t steps) {
  return {.seed = 42,
          .clip_norm = 1,
          .schedule = ct::schedule::cosine{.warmup = steps / 20, .steps = steps, .minimum = 0.1}};
}

/// Splits off the end of the text for validation: at most `tokens` + 1 tokens, so at most `tokens` labels, and at most
/// a fiftieth of the text.
inline auto split(ct::data::corpus const& corpus, std::int64_t tokens) {
  return corpus.split(std::min(0.02, static_cast<double>(tokens + 1) / static_cast<double>(corpus.size())));
}

} // namespace main_job
