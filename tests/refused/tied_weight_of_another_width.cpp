// refused: two extents that must be equal are `expected` and `got`
// shows: widths_differ
// diagnosis: refused, line, 0, 64, 96
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int width = 64;
#else
constexpr int width = 96;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const table = ct::parameter(tokens, "token.weight", ct::shape(97, 64), ct::role::embedding);
    auto const x = ct::linear("up", ct::embedding(table, tokens), width);
    return ct::linear(x, table); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
