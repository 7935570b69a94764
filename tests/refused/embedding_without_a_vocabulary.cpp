// refused: an extent is `got`, but must be at least `expected`
// diagnosis: extent_below_one, line, line, 1, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
#ifdef CORRECT
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#else
    auto const x = ct::embedding("token", tokens, {.width = 64}); // <- line
#endif
    return ct::linear("head", x, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
