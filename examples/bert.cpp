// Trains a small BERT to classify pairs of texts: whether the second text has more friendly words than the first.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <random>
#include <vector>

namespace ct = constrain;

constexpr ct::bert model{.layers = 2, .heads = 4, .width = 64, .hidden = 256, .vocabulary = 32, .context = 16};
using task = ct::task<model.with_classes(2), ct::classification, ct::micro_batch{.sequences = 32}>;
using trainer = ct::trainer<task, ct::checkpoint::every<1>>;
static_assert(trainer::memory.peak < ct::mebibytes(6));

int main() {
  // Token 0 begins a pair. Token 1 ends each text and pads the pair. Tokens 2 to 31 are words, friendly from 17 on.
  std::vector<std::int32_t> tokens, types, lengths, classes;
  std::mt19937 random(1);
  while (classes.size() < 8192) {
    std::vector<std::int32_t> pair{0};
    auto const add_text = [&](int friendly) {
      for (auto words = 2 + random() % 5; words > 0; --words) {
        pair.push_back(2 + static_cast<std::int32_t>(random() % 30));
        friendly += pair.back() >= 17;
      }
      pair.push_back(1);
      return friendly;
    };
    auto const in_first = add_text(0), end_of_first = static_cast<int>(pair.size()), in_second = add_text(0);
    if (in_first == in_second) continue;
    classes.push_back(in_second > in_first), lengths.push_back(static_cast<std::int32_t>(pair.size()));
    pair.resize(16, 1), tokens.insert(tokens.end(), pair.begin(), pair.end());
    for (int i = 0; i < 16; ++i) types.push_back(i >= end_of_first);
  }
  auto const [train, validation] = ct::data::examples({tokens, types, lengths}, classes).split(0.1);
  trainer t{{.learning_rate = 1e-3f}, {.clip_norm = 1, .schedule = ct::schedule::linear{.warmup = 20, .steps = 300}}};
  auto const result = ct::fit(t, train, {.steps = 300, .validation = &validation});
  if (result.validation) std::printf("accuracy on held-out pairs: %.3f\n", result.validation->accuracy);
}
