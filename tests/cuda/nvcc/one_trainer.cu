// The main job's trainer for a CUDA device, in a program whose three files all include everything.

#include <constrain/constrain.hpp>

#include <cstdio>
#include <span>
#include <vector>

namespace ct = constrain;

bool host_trainers_agree();

using task = ct::task<ct::gpt2{.layers = 6, .heads = 6, .width = 384, .vocabulary = 256, .context = 256}, ct::causal_lm,
                      ct::micro_batch{.sequences = 8}>;
using fast = ct::trainer<task, ct::precision::bf16, ct::device::cuda<ct::sm<80>>, ct::launch::graph>;

/// Calls every entry, so that its kernels are compiled.
void run_on_device() {
  fast t;
  std::vector<std::int32_t> const tokens(fast::batch_tokens, 3);
  std::printf("%.9g on the device\n", t.step(t.batch(tokens, tokens)).loss);
  auto const evaluated = t.evaluate(tokens, tokens);
  auto const predicted = t.predict(tokens);
  auto const generated = t.generate(std::span(tokens).first(3), 2);
  std::printf("%.9g in evaluation, %zu logits, %zu tokens\n", evaluated.loss, predicted.logits.size(),
              generated.size());
}

int main() {
  if (!host_trainers_agree()) return 1;
  try {
    run_on_device();
  } catch (ct::error const& e) { std::printf("%s\n", e.what()); }
  return 0;
}
