// The loop over micro-batches, the loop over segments, and five repeats are seven nested loops.
// refused: nested loops or tensors that ranks exchange; put equal layers into one ct::repeat, which stores its body
// diagnosis: program_too_large, line, 0, 6, 7
#include <constrain/constrain.hpp>
namespace ct = constrain;

template <int depth> constexpr ct::value nested(ct::value x) {
  if constexpr (depth == 0) return x + ct::silu(ct::linear("up", x, 64)); // <- line
  else return ct::repeat("block", 2, x, [](ct::value y) { return nested<depth - 1>(y); });
}
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
#ifdef CORRECT
    int constexpr depth = 4;
#else
    int constexpr depth = 5;
#endif
    return ct::linear("head", nested<depth>(ct::embedding("token", tokens, {.vocabulary = 97, .width = 64})), 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 8, .tokens = 32}>;
using trainer = ct::trainer<task, ct::checkpoint::every<2>, ct::accumulate<2>>;
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // <- here
