// refused: ct::causal_lm needs logits of shape [sequences, tokens, vocabulary]
// shows: logits_are_not_per_token
// diagnosis: refused, any, any, 3, 2
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    return ct::linear("head", x, 97);
#else
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 97);
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
