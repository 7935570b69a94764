// refused: the name of a layer, a parameter, a setting or an optimizer state is not UTF-8 at its byte `got`
// shows: name_is_not_utf8
// diagnosis: refused, line, 0, 0, 5
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr char const* name = "biais\xc3\xa9";
#else
constexpr char const* name = "biais\xe9";
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
