// refused: no gradient reaches a trainable parameter; let the loss depend on the parameter through differentiable ops
// shows: parameter_without_path_to_the_loss
// diagnosis: refused, line, any, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto y = ct::linear("forgotten", x, 64, {.bias = false}); // <- line
#ifndef CORRECT
    y = x;
#endif
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
