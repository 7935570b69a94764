// refused: checkpoint::budget: the step fits into the limit, `expected`, but the trainer needs `got` bytes
// shows: 4194304
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 64});
    return ct::linear("head", ct::gelu(ct::linear("hidden", x, 256)), 256);
  }
};

#ifdef CORRECT
constexpr int sequences = 2;
#else
constexpr int sequences = 512;
#endif
using task =
    ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 64, .evaluation_sequences = sequences}>;
ct::trainer<task, ct::checkpoint::budget<ct::mebibytes(4)>> t; // <- here
