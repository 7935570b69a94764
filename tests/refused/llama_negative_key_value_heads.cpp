// refused: ct::llama: .key_value_heads is `got`; give 0 or more (0 means as many as .heads)
// diagnosis: refused, any, any, 0, -2
// shows: key_value_heads_are_negative
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int heads = 2;
#else
constexpr int heads = -2;
#endif

constexpr ct::llama model{.layers = 2,
                          .heads = 4,
                          .key_value_heads = heads,
                          .width = 64,
                          .hidden = 64,
                          .vocabulary = 256,
                          .context = 64,
                          .head_norms = true};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
