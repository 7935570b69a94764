// refused: a value that must be floating-point holds integers, such as token ids; pass ids to ct::embedding as
// shows: integers_instead_of_floats
// diagnosis: refused, line, call, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct first_tokens {
  constexpr ct::value operator()(ct::value x) const {
#ifdef CORRECT
    return x;
#else
    return ct::slice(x, 1, 0, 8); // <- line
#endif
  }
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const first = ct::apply("first", first_tokens{}, tokens); // <- call
    return ct::linear("head", ct::embedding("token", first, {.vocabulary = 97, .width = 64}), 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
