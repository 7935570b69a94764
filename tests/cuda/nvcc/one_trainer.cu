// The main job's trainers for a CUDA device and for the CPU, in a .cu file; other_unit.cpp includes everything too.

#include <constrain/constrain.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace ct = constrain;

double train_elsewhere();

using task = ct::task<ct::gpt2{.layers = 6, .heads = 6, .width = 384, .vocabulary = 256, .context = 256}, ct::causal_lm,
                      ct::micro_batch{.sequences = 8}>;
using fast = ct::trainer<task, ct::precision::bf16, ct::device::cuda<ct::sm<80>>, ct::launch::graph>;
using small_task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 31, .context = 8},
                            ct::causal_lm, ct::micro_batch{.sequences = 2}>;

int main() {
  std::vector<std::int32_t> const tokens(16, 3);
  ct::trainer<small_task> here;
  double const loss = here.step(here.batch(tokens, tokens)).loss;
  double const there = train_elsewhere();
  std::printf("%.9g in a .cu, %.9g in a .cpp\n", loss, there);
  if (loss != there) return 1;
  ct::trainer<small_task, ct::precision::fp16> half; // nvcc takes other code than the C++ compiler
  if (std::abs(half.step(half.batch(tokens, tokens)).loss - loss) > 2e-3 * loss) return 1;
  try {
    fast t;
    std::vector<std::int32_t> const more(fast::batch_tokens, 3);
    std::printf("%.9g on the device\n", t.step(t.batch(more, more)).loss);
  } catch (ct::error const& e) { std::printf("%s\n", e.what()); }
  return 0;
}
