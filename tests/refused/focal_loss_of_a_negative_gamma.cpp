// refused: ct::focal_loss: gamma is negative or not finite; give a finite number of at least 0, for example 2
// shows: gamma_is_out_of_range
// diagnosis: refused, line, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};
#ifdef CORRECT
constexpr double gamma_of_the_loss = 2;
#else
constexpr double gamma_of_the_loss = -2;
#endif
struct objective {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    return ct::focal_loss(logits, labels, {.gamma = gamma_of_the_loss}); // <- line
  }
};

using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
