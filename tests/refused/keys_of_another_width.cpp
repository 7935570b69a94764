// refused: ct::self_attention: keys and values must be [sequences, tokens, key_value_heads * head width]
// shows: keys_or_values_do_not_fit_the_queries
// diagnosis: refused, line, 0, 64, 16
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const q = ct::linear("q", x, 64), k = ct::linear("k", x, 16), v = ct::linear("v", x, 16);
#ifdef CORRECT
    auto const y = ct::self_attention(q, k, v, {.heads = 8, .key_value_heads = 2});
#else
    auto const y = ct::self_attention(q, k, v, {.heads = 8}); // <- line
#endif
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
