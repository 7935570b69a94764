// refused: the input of ct::linear has no feature dimension; pass a value of shape [..., features]
// shows: input_is_a_scalar
// diagnosis: refused, line, line, 1, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::mean(ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), ct::axis::tokens);
#ifdef CORRECT
    return ct::linear("head", x, 4);
#else
    return ct::linear("head", ct::parameter(x, "scale", ct::shape{}, ct::role::bias), 4); // <- line
#endif
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
