// refused: take the number of sequences from the shape of the model's input
// shows: elements_differ
// diagnosis: refused, line, any, 2048, 16384
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    auto const sequences = x.shape().extent[0];
#else
    constexpr int sequences = 8;
#endif
    auto const halves = ct::reshape(x, ct::shape(sequences, 64, 32)); // <- line
    return ct::linear("head", ct::reshape(halves, x.shape()), 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
