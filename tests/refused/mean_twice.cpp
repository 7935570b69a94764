// refused: a value has `got` dimensions, but needs `expected`; pass [sequences, tokens, features]
// shows: wrong_number_of_dimensions
// diagnosis: refused, line, 0, 3, 2
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::mean(ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), ct::axis::tokens);
#ifndef CORRECT
    x = ct::mean(x, ct::axis::tokens); // <- line
#endif
    return ct::linear("head", x, 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
