// refused: ct::position_embedding: a sequence of `got` tokens is longer than the context of `expected` tokens
// shows: sequence_longer_than_context
// diagnosis: refused, any, any, 64, 128
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int tokens = 64;
#else
constexpr int tokens = 128;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2, .tokens = tokens}>;
ct::trainer<task> t; // <- here
