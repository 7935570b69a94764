// refused: ct::self_attention: the width of qkv, `got`, is not a multiple of `expected`, which is heads + 2 *
// shows: qkv_does_not_fit_the_heads
// diagnosis: refused, line, 0, 12, 64
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int width = (8 + 2 * 2) * 8;
#else
constexpr int width = 64;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const qkv = ct::linear("qkv", x, width);
    auto const y = ct::self_attention(qkv, {.heads = 8, .key_value_heads = 2}); // <- line
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
