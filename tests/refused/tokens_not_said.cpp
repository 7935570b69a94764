// refused: task: a micro-batch needs at least one sequence and one token; write ct::micro_batch{.sequences = 8, .tokens
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

#ifdef CORRECT
using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
#else
using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8}>;
#endif
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
