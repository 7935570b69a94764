// Trainers on the CPU in a .cu file; other_unit.cpp trains one of them too. Of 16-bit types nvcc takes other code than
// the C++ compiler.

#include <constrain/constrain.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace ct = constrain;

double train_elsewhere();

using small_task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 31, .context = 8},
                            ct::causal_lm, ct::micro_batch{.sequences = 2}>;

/// Whether the loss of a first step equals the other file's; in fp16, nearly.
bool host_trainers_agree() {
  std::vector<std::int32_t> const tokens(16, 3);
  ct::trainer<small_task> here;
  double const loss = here.step(here.batch(tokens, tokens)).loss;
  double const there = train_elsewhere();
  std::printf("%.9g in a .cu, %.9g in a .cpp\n", loss, there);
  ct::trainer<small_task, ct::precision::fp16> half;
  if (here.steps() != ct::optimizer_steps(1) || here.memory.peak == ct::bytes(0)) return false;
  return loss == there && std::abs(half.step(half.batch(tokens, tokens)).loss - loss) <= 2e-3 * loss;
}
