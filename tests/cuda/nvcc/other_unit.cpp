#include <constrain/constrain.hpp>

#include <vector>

namespace ct = constrain;

using small_task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 31, .context = 8},
                            ct::causal_lm, ct::micro_batch{.sequences = 2}>;

double train_elsewhere() {
  std::vector<std::int32_t> const tokens(16, 3);
  ct::trainer<small_task> t;
  return t.step(t.batch(tokens, tokens)).loss;
}
