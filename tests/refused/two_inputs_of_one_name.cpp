// refused: hold a ct::port_spec without a name, two with the same name
// shows: port_is_invalid
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
#ifdef CORRECT
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "segments"}};
#else
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "tokens"}};
#endif
  constexpr ct::value operator()(ct::value tokens, ct::value segments) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64}) +
                   ct::embedding("segment", segments, {.vocabulary = 2, .width = 64});
    return ct::linear("head", x, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
ct::trainer<task> t; // <- here
