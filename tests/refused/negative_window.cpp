// refused: ct::self_attention: .window is `got`, but must be the number of tokens
// shows: window_is_negative
// diagnosis: refused, line, 0, 0, -1
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int window = 1;
#else
constexpr int window = -1;
#endif

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 48});
    auto const y = ct::self_attention(x, {.heads = 2, .window = window}); // <- line
    return ct::linear("head", y, 97);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
ct::trainer<task> t; // <- here
