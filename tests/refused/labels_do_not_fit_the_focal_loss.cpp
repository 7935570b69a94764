// refused: ct::focal_loss needs one integer label per row of logits: logits [..., classes], labels [...]; there are
// shows: labels_do_not_fit_the_logits
// diagnosis: refused, line, 0, 8, 256
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}), 4);
  }
};
struct objective {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
#ifndef CORRECT
    logits = ct::mean(logits, ct::axis::tokens);
#endif
    return ct::focal_loss(logits, labels); // <- line
  }
};

using task = ct::task<model{}, objective, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
