// refused: an extent is `got`, but must be at least `expected`
// diagnosis: extent_below_one, line, line, 1, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    auto const y = ct::position_embedding("position", x, {.context = 32});
#else
    auto const y = ct::position_embedding("position", x, {}); // <- line
#endif
    return ct::linear("head", y, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
