// Fine-tunes a small Llama on a text: llama [TEXT [WEIGHTS]]. The default text consists of sentences in the passive
// voice. WEIGHTS: a directory with weights of this small model; by default, the program first trains the model on
// sentences in the active voice and saves it in the directory pretrained-llama.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <random>
#include <string>

namespace ct = constrain;

constexpr ct::llama model{.layers = 3, .heads = 4, .key_value_heads = 2, .width = 64, .hidden = 192, .vocabulary = 256};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 64}>;
using fine_tuned = ct::trainer<task, ct::precision::bf16, ct::checkpoint::every<1>, ct::accumulate<2>>;
static_assert(fine_tuned::memory.peak < ct::mebibytes(5));

ct::data::corpus sentences(std::initializer_list<std::string> verbs) {
  std::mt19937 random(1);
  auto const one_of = [&](std::initializer_list<std::string> words) { return words.begin()[random() % words.size()]; };
  auto const animal = [&] { return one_of({"the ", "a "}) + one_of({"cat", "dog", "bird", "fox", "old horse"}); };
  std::string text;
  while (text.size() < 50'000) text += animal() + one_of(verbs) + animal() + ".\n";
  return ct::data::text_from(text);
}

int main(int count, char** arguments) try {
  std::string const pretrained = count > 2 ? arguments[2] : "pretrained-llama";
  if (count <= 2) {
    ct::trainer<task> t({.learning_rate = 3e-3f}, {.clip_norm = 1});
    ct::fit(t, sentences({" sees ", " knows ", " calls "}), {.steps = 80, .log_every = 20});
    t.save(pretrained);
  }
  fine_tuned t({.learning_rate = 1e-3f}, {.clip_norm = 1, .schedule = ct::schedule::cosine{.warmup = 6, .steps = 60}});
  t.load_pretrained(pretrained);
  auto const passive = sentences({" is seen by ", " is known to ", " is called by "});
  auto const [train, validation] = (count > 1 ? ct::data::text(arguments[1]) : passive).split(0.1);
  auto const before = t.evaluate(validation).loss;
  auto const after = ct::fit(t, train, {.steps = 60, .validation = &validation, .log_every = 10}).validation;
  if (after) std::printf("validation loss: %.3f before, %.3f after\n", before, after->loss);
} catch (ct::error const& e) { return std::fprintf(stderr, "%s\n", e.what()), 1; }
