// refused: pool: the sequence of `expected` tokens is not a multiple of `got`; choose a size that divides it
// shows: size_does_not_divide_the_tokens
// diagnosis: refused, line, 0, 32, 5
#include <constrain/constrain.hpp>

#include "own_op.hpp"

#ifdef CORRECT
constexpr int size = 4;
#else
constexpr int size = 5;
#endif
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::emit<pool>({x}, {.size = size}); // <- line
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};
using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
