// refused: the model has a setting named dropout, clip_norm, inverse_label_count, loss_scale or
// diagnosis: refused, line, any, any, any
// shows: setting_is_taken
#include <constrain/constrain.hpp>

#include "scaled.hpp"

#ifdef CORRECT
constexpr char const* name = "keep";
#else
constexpr char const* name = "dropout";
#endif
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 32, .width = 8});
    auto const factor = ct::setting(x, name, 1); // <- line
    return ct::linear("head", ct::emit<scaled_op>({x, factor}), 32);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;

ct::trainer<task> t; // <- here
