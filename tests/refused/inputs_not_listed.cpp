// refused: without this list, the only input is `tokens`
// shows: inputs_do_not_fit_the_model
// diagnosis: refused, 0, 0, 0, 1
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
#ifdef CORRECT
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "segments"}};
#endif
  constexpr ct::value operator()(ct::value tokens, ct::value segments) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}) +
                   ct::embedding("segment", segments, {.vocabulary = 2, .width = 64});
    return ct::linear("head", x, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
ct::trainer<task> t; // <- here
