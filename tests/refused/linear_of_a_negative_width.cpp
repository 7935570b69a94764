// refused: an extent is `got`, but must be at least `expected`
// diagnosis: extent_below_one, line, line, 1, -9
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int classes = 9;
#else
constexpr int classes = -9;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", x, classes); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
