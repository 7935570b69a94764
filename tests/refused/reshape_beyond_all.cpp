// refused: a tensor has more than `expected` elements over all iterations and micro-batches; lower its extents
// diagnosis: tensor_too_large, line, any, 70368744177664, 1099511627776
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    auto const to = x.shape();
#else
    ct::shape const to(1LL << 40, 1LL << 40);
#endif
    return ct::linear("head", ct::reshape(x, to), 97); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
