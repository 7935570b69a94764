// refused: ct::select_token: there is no token `got` in sequences of `expected` tokens
// shows: no_such_token
// diagnosis: refused, line, 0, 16, 16
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    return ct::linear("head", ct::select_token(x, 15), 4);
#else
    return ct::linear("head", ct::select_token(x, 16), 4); // <- line
#endif
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 16}>;
ct::trainer<task> t; // <- here
