// refused: a value that must be floating-point holds integers, such as token ids; pass ids to ct::embedding as
// shows: integers_instead_of_floats
// diagnosis: refused, line, any, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    auto const y = x + x;
    return ct::linear("head", y, 97);
#else
    auto const y = tokens + tokens; // <- line
    return ct::linear("head", x, 97) + ct::linear("other", y, 97);
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
