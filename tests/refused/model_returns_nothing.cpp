// refused: task: the model is not a function from ct::value to ct::value
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
#ifdef CORRECT
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), 97);
#else
  constexpr void operator()(ct::value tokens) const {
    ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), 97);
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
