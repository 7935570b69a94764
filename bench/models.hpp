#pragma once

#include "measure.hpp"
#include "step_of_plan.hpp" // random_integers

#include <constrain/constrain.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace constrain::bench {

// The models whose steps are measured: the name of each in options and results, and its micro-batch.
// peers/training_step.py has the same models.

/// GPT-2 124M.
struct of_gpt2 {
  static std::string name() { return "gpt2"; }
  static constexpr gpt2 model = gpt2_small;
  using objective = causal_lm;
  static constexpr std::int64_t sequences = 4;
};
/// BERT large with two classes.
struct of_bert_large {
  static std::string name() { return "bert_large"; }
  static constexpr bert model = bert_large.with_classes(2);
  using objective = classification;
  static constexpr std::int64_t sequences = 1;
};
/// The first `layers` of the 16 layers of Llama 3.2 1B. All 16 take more than 20 GB with AdamW.
template <int layers = llama3_2_1b.layers> struct of_llama_1b {
  static std::string name() {
    return layers == llama3_2_1b.layers ? "llama_1b" : "llama_1b_" + std::to_string(layers) + "_layers";
  }
  static constexpr llama model = [] {
    auto m = llama3_2_1b;
    m.layers = layers;
    return m;
  }();
  using objective = causal_lm;
  static constexpr std::int64_t sequences = 1;
};

/// A trainer of one of these models, and one batch, which every step uses.
template <class of, class trainer_, int tokens> class repeated_step {
public:
  using trainer = trainer_;

  /// Seconds of one step.
  double run() {
    auto const of_step = [&] {
      if constexpr (is_classifier) return t_.batch({tokens_, types_, lengths_}, labels_);
      else return t_.batch(tokens_, labels_);
    };
    auto const batch = of_step();
    return seconds_of([&] { t_.step(batch); });
  }

private:
  static constexpr bool is_classifier = std::is_same_v<typename of::objective, classification>;
  static constexpr std::int64_t all_tokens = of::sequences * tokens;

  std::vector<std::int32_t> tokens_ = random_integers(all_tokens, of::model.vocabulary, 2);
  std::vector<std::int32_t> types_ = std::vector<std::int32_t>(all_tokens);
  std::vector<std::int32_t> lengths_ = std::vector<std::int32_t>(of::sequences, tokens);
  std::vector<std::int32_t> labels_ =
      is_classifier ? random_integers(of::sequences, 2, 3) : random_integers(all_tokens, of::model.vocabulary, 3);
  trainer t_{{.learning_rate = 1e-5f, .weight_decay = 0.1f}, {.seed = 1}};
};

} // namespace constrain::bench
