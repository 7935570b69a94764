// refused: ct::llama: .heads, the number of query heads, is `got`; give `expected` or more
// diagnosis: refused, any, any, 1, 0
// shows: heads_are_below_one
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int heads = 4;
#else
constexpr int heads = 0;
#endif

constexpr ct::llama model{.layers = 2,
                          .heads = heads,
                          .key_value_heads = 0,
                          .width = 64,
                          .hidden = 64,
                          .vocabulary = 256,
                          .context = 64,
                          .head_width = 16,
                          .head_norms = true};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
