// refused: the parts of a parameter (ct::in_parts, or `parts` of a layer) do not fit its extent, `expected`
// diagnosis: refused, line, line, 12, 10
// shows: parts_do_not_fit
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 8});
#ifdef CORRECT
    auto const qkv = ct::linear("qkv", x, 12, {.parts = {8, 2, 2}});
#else
    auto const qkv = ct::linear("qkv", x, 12, {.parts = {8, 2}}); // <- line
#endif
    return ct::linear("head", qkv, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
