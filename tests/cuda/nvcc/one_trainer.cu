// The main job's trainers for a CUDA device and for the CPU, in a .cu file; other_unit.cpp includes everything too.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <span>
#include <vector>

namespace ct = constrain;

double train_elsewhere();
bool half_precision_agrees(double loss);

using task = ct::task<ct::gpt2{.layers = 6, .heads = 6, .width = 384, .vocabulary = 256, .context = 256}, ct::causal_lm,
                      ct::micro_batch{.sequences = 8}>;
using fast = ct::trainer<task, ct::precision::bf16, ct::device::cuda<ct::sm<80>>, ct::launch::graph>;
using small_task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 31, .context = 8},
                            ct::causal_lm, ct::micro_batch{.sequences = 2}>;

/// Calls every entry, so that their kernels are compiled.
void run_on_device() {
  fast t;
  std::vector<std::int32_t> const tokens(fast::batch_tokens, 3);
  std::printf("%.9g on the device\n", t.step(t.batch(tokens, tokens)).loss);
  auto const evaluated = t.evaluate(tokens, tokens);
  auto const logits = t.predict(tokens);
  auto const generated = t.generate(std::span(tokens).first(3), 2);
  std::printf("%.9g in evaluation, %zu logits, %zu tokens\n", evaluated.loss, logits.values.size(), generated.size());
}

int main() {
  std::vector<std::int32_t> const tokens(16, 3);
  ct::trainer<small_task> here;
  double const loss = here.step(here.batch(tokens, tokens)).loss;
  double const there = train_elsewhere();
  std::printf("%.9g in a .cu, %.9g in a .cpp\n", loss, there);
  if (loss != there || !half_precision_agrees(loss)) return 1;
  try {
    run_on_device();
  } catch (ct::error const& e) { std::printf("%s\n", e.what()); }
  return 0;
}
