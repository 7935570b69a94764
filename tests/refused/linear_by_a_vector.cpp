// refused: a weight has `got` dimensions, but must be a matrix
// shows: weight_is_not_a_matrix
// diagnosis: refused, line, 0, 2, 1
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    auto const weight = ct::parameter(x, "weight", ct::shape(64, 64), ct::role::weight);
#else
    auto const weight = ct::parameter(x, "weight", ct::shape(64), ct::role::weight);
#endif
    auto const y = ct::linear(x, weight); // <- line
    return ct::linear("head", y, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
