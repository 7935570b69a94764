#include <constrain/constrain.hpp>

#include <cstdio>

namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 256, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task, ct::accumulate<2>, ct::checkpoint::every<1>>;

int main() {
  trainer t{{.learning_rate = 1e-2f}, {.seed = 1}};
  std::string text;
  for (int i = 0; i < 500; ++i) text += "abc "[i % 4];
  auto const result = ct::fit(t, ct::data::text_from(text), {.steps = 30, .log = nullptr});
  std::printf("loss %.3f with %s\n", result.loss, ct::gemm_provider());
  return result.loss < 2 ? 0 : 1;
}
