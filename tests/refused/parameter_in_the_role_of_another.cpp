// refused: ct::parameter: the given role is not for parameters
// diagnosis: role_is_not_for_parameters, line, 0, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    auto const role = ct::role::weight;
#else
    auto const role = ct::role::gradient;
#endif
    auto const weight = ct::parameter(x, "weight", ct::shape(97, 64), role); // <- line
    return ct::linear(x, weight);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
