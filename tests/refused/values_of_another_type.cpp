// refused: ct::self_attention: queries, keys and values must have the same element type
// shows: keys_or_values_of_another_type
// diagnosis: refused, line, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const q = ct::linear("q", x, 64), k = ct::linear("k", x, 64), v = ct::linear("v", x, 64);
#ifdef CORRECT
    auto const y = ct::self_attention(q, k, v, {.heads = 8});
#else
    auto const wide = ct::emit<ct::op::cast>({v}, {.to = ct::dtype::f64});
    auto const y = ct::self_attention(q, k, wide, {.heads = 8}); // <- line
#endif
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
