// refused: the input of ct::embedding must be integers (i32); pass token ids or
// shows: tokens_are_not_integers
// diagnosis: refused, line, line, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifndef CORRECT
    x = ct::embedding("again", ct::mean(x, ct::axis::features), {.vocabulary = 97, .width = 64}); // <- line
#endif
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
