// refused: task: the model or the objective is not a constant expression
// shows: model_is_not_constant
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  int heads = 4;
  constexpr ct::value operator()(ct::value tokens) const {
    if (heads % 3 != 0) throw "heads";
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", x, 97);
  }
};

#ifdef CORRECT
constexpr int heads = 3;
#else
constexpr int heads = 4;
#endif

using task = ct::task<model{heads}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
