// refused: ct::self_attention: with .documents, the positions of the tokens in their documents must be integers
// shows: positions_do_not_fit
// diagnosis: refused, line, 0, 32, 2
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
#ifdef CORRECT
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "positions"}};
#else
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "positions", .each = ct::per::sequence}};
#endif
  constexpr ct::value operator()(ct::value tokens, ct::value positions) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 48});
    auto const y = ct::self_attention(x, positions, {.heads = 2, .documents = true}); // <- line
    return ct::linear("head", y, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
ct::trainer<task> t; // <- here
