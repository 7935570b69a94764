// own error
// not for: nvcc (its own error is the first of nine, in 85 lines)
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const skip = x;
#ifdef CORRECT
    x = ct::repeat("block", 2, x, [&](ct::value y) { return ct::linear("mlp", y, 64) + skip; });
#else
    x = ct::repeat("block", 2, x, [](ct::value y) { return ct::linear("mlp", y, 64) + skip; }); // <- here
#endif
    return ct::linear("head", x, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700));
