// refused: ct::llama: a sequence of `got` tokens is longer than .context, `expected` tokens
// diagnosis: refused, any, any, 64, 65
// shows: sequence_longer_than_context
#include <constrain/constrain.hpp>
namespace ct = constrain;

constexpr ct::llama model{
    .layers = 2, .heads = 2, .key_value_heads = 1, .width = 64, .hidden = 64, .vocabulary = 256, .context = 64};

#ifdef CORRECT
constexpr int tokens = 64;
#else
constexpr int tokens = 65;
#endif

using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = tokens}>;
ct::trainer<task> t; // <- here
