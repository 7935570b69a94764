// refused: the parameter has `expected` dimensions, but its parts lie along dimension
// diagnosis: refused, line, any, 2, 2
// shows: no_such_dimension_of_parts
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 8});
    auto const w = ct::parameter(x, "w", ct::shape(97, 8), ct::role::head, {.stddev = 0.1});
#ifdef CORRECT
    return ct::linear(x, ct::in_parts(w, {6, 2}, 1));
#else
    return ct::linear(x, ct::in_parts(w, {6, 2}, 2)); // <- line
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
