// refused: checkpoint::budget: the trainer needs `got` bytes more than the limit, `expected`, with the smallest plan
// shows: 262144
#include <constrain/constrain.hpp>
namespace ct = constrain;

// For a transformer, compilers take up to half a minute.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 256, .width = 64});
    return ct::linear("head", ct::gelu(ct::linear("hidden", x, 256)), 256);
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 64}>;

#ifdef CORRECT
ct::trainer<task, ct::checkpoint::budget<ct::mebibytes(64)>> t;
#else
ct::trainer<task, ct::checkpoint::budget<ct::kibibytes(256)>> t; // <- here
#endif
