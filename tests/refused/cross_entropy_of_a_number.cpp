// refused: ct::cross_entropy: the third argument is a number; pass ct::cross_entropy_options
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), 97);
  }
};
struct objective {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
#ifdef CORRECT
    return ct::cross_entropy(logits, labels, {.label_smoothing = 0.1});
#else
    return ct::cross_entropy(logits, labels, 0.1); // <- here
#endif
  }
};

using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700));
