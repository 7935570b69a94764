// refused: two shapes that must be equal have `expected` and `got` dimensions
// shows: ranks_differ
// diagnosis: refused, line, 0, 3, 2
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::linear("gate", x, 64);
#ifdef CORRECT
    auto const z = y * x;
#else
    auto const z = y * ct::mean(x, ct::axis::tokens); // <- line
#endif
    return ct::linear("head", z, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
