// refused: task: the model or the objective returns a value defined in the body of a ct::repeat
// shows: value_of_a_repeat_is_returned
// diagnosis: refused, made, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    x = ct::repeat("block", 3, x, [](ct::value y) { return ct::linear("mlp", y, 64); });
    return ct::linear("head", x, 97);
#else
    ct::value logits;
    ct::repeat("block", 3, x, [&](ct::value y) {
      logits = ct::linear("head", y, 97); // <- made
      return ct::linear("mlp", y, 64);
    });
    return logits;
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
