// refused: ct::in_parts: the value is not a parameter; pass the result of ct::parameter
// diagnosis: refused, line, any, 0, 0
// shows: value_is_not_a_parameter
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 8});
    auto const w = ct::parameter(x, "w", ct::shape(97, 8), ct::role::head, {.stddev = 0.1});
#ifdef CORRECT
    return ct::linear(x, ct::in_parts(w, {90, 7}));
#else
    return ct::linear(ct::in_parts(x, {4, 4}), w); // <- line
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
