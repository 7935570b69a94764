// refused: ct::repeat: the number of iterations is
// shows: repeat_of_nothing
// diagnosis: refused, line, 0, 1, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int layers = 1;
#else
constexpr int layers = 0;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    x = ct::repeat("block", layers, x, [](ct::value x) { return x + ct::linear("mlp", x, 64); }); // <- line
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
