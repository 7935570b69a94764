// refused: no gradient flows from the result of the body of ct::repeat to the body's argument
// shows: repeat_ignores_its_input
// diagnosis: refused, line, any, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const y = ct::repeat("block", 3, x, [&](ct::value y) { // <- line
#ifdef CORRECT
      return ct::linear("mlp", y, 64);
#else
      static_cast<void>(y);
      return ct::linear("mlp", x, 64);
#endif
    });
    return ct::linear("head", ct::mean(y, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
