// refused: no parameter is trained: all are frozen, or the model has none
// shows: nothing_is_trained
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const table = ct::parameter(tokens, "table", ct::shape(5, 4), ct::role::frozen);
#ifdef CORRECT
    auto const role = ct::role::head;
#else
    auto const role = ct::role::frozen;
#endif
    return ct::linear("head", ct::embedding(table, tokens), 5, {.bias = false, .role = role});
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
