// refused: ct::parameter: the initial .stddev is not in [0, 1e30], or the initial .constant is not in [-1e30, 1e30]
// shows: initial_value_is_out_of_range
// diagnosis: refused, any, any, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  int context = 8;

  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 32, .width = 8});
#ifdef CORRECT
    return ct::linear("head", x, 32, {.stddev = 0.02});
#else
    return ct::linear("head", x, 32, {.stddev = -0.02});
#endif
  }
};

ct::trainer<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2}>> t; // <- here
