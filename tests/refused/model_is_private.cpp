// refused: task: the model is not a function from ct::value to ct::value; give its type a public
// shows: model_is_not_a_function
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

class model {
#ifdef CORRECT
public:
#endif
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
