// refused: a tensor has more than `expected` elements over all iterations and micro-batches
// diagnosis: tensor_too_large, any, any, 70368744177664, 2147483647
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    int const iterations = 2;
#else
    int const iterations = 2147483647;
#endif
    auto const y = ct::repeat("a", iterations, x, [=](ct::value y) {
      return ct::repeat("b", iterations, y, [=](ct::value z) { return z; });
    });
    return ct::linear("head", y, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
