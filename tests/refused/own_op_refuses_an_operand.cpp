// refused: pool: its input has `got` dimensions where `expected` are needed; apply it before ct::mean
// shows: not_a_sequence
// diagnosis: refused, line, 0, 3, 2
#include <constrain/constrain.hpp>

#include "own_op.hpp"

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    auto const y = ct::mean(ct::emit<pool>({x}, {.size = 4}), ct::axis::tokens);
#else
    auto const y = ct::emit<pool>({ct::mean(x, ct::axis::tokens)}, {.size = 4}); // <- line
#endif
    return ct::linear("head", y, 4);
  }
};
using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
