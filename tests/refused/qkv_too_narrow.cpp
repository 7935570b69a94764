// refused: ct::self_attention: the width of qkv, `got`, must be a multiple of 3
// shows: qkv_width_is_not_a_multiple_of_three
// diagnosis: refused, line, 0, 3, 64
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int times = 3;
#else
constexpr int times = 1;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::self_attention(ct::linear("qkv", x, times * 64), {.heads = 4}); // <- line
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
