// refused: but needs at least one of each; write for example ct::micro_batch{.sequences = 8, .tokens = 32}
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
