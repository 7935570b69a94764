#include <constrain/constrain.hpp>

// A trainer for compilers that check for undefined behaviour: their constants compare no two addresses.

namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task, ct::checkpoint::every<1>, ct::accumulate<2>>;
static_assert(trainer::memory.peak <= ct::mebibytes(700));

double train(trainer& t, ct::data::corpus const& corpus) {
  ct::fit(t, corpus, {.steps = 2});
  return t.evaluate(corpus).loss + static_cast<double>(t.generate("x", 2).size());
}
