// refused: ct::self_attention: the number of heads is `got`, but must be a positive divisor of the width of the
// shows: heads_do_not_divide_the_width
// diagnosis: refused, line, called_from, 64, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int heads = 4;
#else
constexpr int heads = 0;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    x = ct::repeat("block", 3, x, [](ct::value x) {                                            // <- called_from
      return x + ct::self_attention(ct::linear("qkv", x, 3 * x.features()), {.heads = heads}); // <- line
    });
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
