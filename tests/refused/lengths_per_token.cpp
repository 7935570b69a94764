// refused: ct::self_attention: lengths must be integers of shape [sequences]
// shows: lengths_do_not_fit
// diagnosis: refused, line, 0, 2, 32
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
#ifdef CORRECT
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
#else
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths"}};
#endif
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 48});
    auto const y = ct::self_attention(x, lengths, {.heads = 2}); // <- line
    return ct::linear("head", y, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
ct::trainer<task> t; // <- here
