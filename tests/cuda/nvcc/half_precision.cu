// A trainer in fp16 on the CPU, of whose types nvcc takes other code than the C++ compiler.

#include <constrain/constrain.hpp>

#include <cmath>
#include <vector>

namespace ct = constrain;

using small_task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 31, .context = 8},
                            ct::causal_lm, ct::micro_batch{.sequences = 2}>;

/// Whether the loss of a first step is that of fp32.
bool half_precision_agrees(double loss) {
  std::vector<std::int32_t> const tokens(16, 3);
  ct::trainer<small_task, ct::precision::fp16> half;
  return std::abs(half.step(half.batch(tokens, tokens)).loss - loss) <= 2e-3 * loss;
}
