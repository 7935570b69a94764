// refused: the body of ct::repeat returns a value whose shape differs from its argument's
// shows: repeat_changes_the_shape
// diagnosis: refused, line, any, 16384, 8192
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int width = 64;
#else
constexpr int width = 32;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    x = ct::repeat("block", 3, x, [](ct::value x) { return ct::linear("mlp", x, width); }); // <- line
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
