// refused: nested loops or tensors that ranks exchange; put equal layers into one ct::repeat, which stores its body
// diagnosis: program_too_large, 0, called_from, 6, 7
#include <constrain/constrain.hpp>
namespace ct = constrain;

template <int depth> constexpr ct::value nested(ct::value x) {
  if constexpr (depth == 0) return x + ct::silu(ct::linear("up", x, 64));
  else return ct::repeat("block", 2, x, [](ct::value y) { return nested<depth - 1>(y); }); // <- called_from
}
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
#ifdef CORRECT
    int constexpr depth = 6;
#else
    int constexpr depth = 7;
#endif
    return ct::linear("head", nested<depth>(ct::embedding("token", tokens, {.vocabulary = 97, .width = 64})), 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
