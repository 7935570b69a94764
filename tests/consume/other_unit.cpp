#include <constrain/constrain.hpp>

#include <cstdio>

namespace ct = constrain;

// The same trainer as in program.cpp, and one more.
using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 256, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

std::int64_t other_unit() {
  ct::trainer<task, ct::accumulate<2>, ct::checkpoint::every<1>> one;
  ct::trainer<task, ct::optimizer::sgd> two;
  ct::explain<decltype(two)>();
  return static_cast<std::int64_t>(one.parameters().size() + two.parameters().size());
}
