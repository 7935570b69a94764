// refused: ct::self_attention: key_value_heads is `got`, but must be a positive divisor of the number of heads,
// shows: key_value_heads_do_not_divide_the_heads
// diagnosis: refused, line, 0, 8, 3
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int shared = 2;
#else
constexpr int shared = 3;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const q = ct::linear("q", x, 64), k = ct::linear("k", x, shared * 8), v = ct::linear("v", x, shared * 8);
    auto const y = ct::self_attention(q, k, v, {.heads = 8, .key_value_heads = shared}); // <- line
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
