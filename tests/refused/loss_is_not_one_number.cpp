// refused: the objective returns a value of `got` elements, but must return a scalar; let it return a loss
// shows: loss_is_not_a_scalar
// diagnosis: refused, any, any, 1, 32
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};
struct objective {
  constexpr ct::value operator()(ct::value logits, [[maybe_unused]] ct::value labels) const {
#ifdef CORRECT
    return ct::cross_entropy(logits, labels);
#else
    return logits;
#endif
  }
};

using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
