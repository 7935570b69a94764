// refused: ct::parameter: the name is empty, and no layer's scope names the parameter; give it a name
// shows: parameter_without_a_name
// diagnosis: refused, line, 0, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr char const* name = "weight";
#else
constexpr char const* name = "";
#endif
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const weight = ct::parameter(x, name, ct::shape(97, 64), ct::role::weight); // <- line
    return ct::linear(x, weight);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
