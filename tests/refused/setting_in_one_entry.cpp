// refused: the model or a policy's pass declares different parameters or settings for different entries (step,
// shows: entries_differ
#include <constrain/constrain.hpp>

#include "scaled.hpp"

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 32, .width = 8});
#ifndef CORRECT
    if (tokens.shape().extent[0] == 1)
#endif
      x = ct::emit<scaled_op>({x, ct::setting(x, "first", 1)});
    return ct::linear("head", ct::emit<scaled_op>({x, ct::setting(x, "second", 1)}), 32);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;

ct::trainer<task> t; // <- here
