// refused: ct::llama: .width is `expected`, but must be a positive multiple of .heads, `got`
// diagnosis: refused, any, any, 64, 5
// shows: heads_do_not_divide_the_width
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int heads = 4;
#else
constexpr int heads = 5;
#endif

constexpr ct::llama model{.layers = 2,
                          .heads = heads,
                          .key_value_heads = 0,
                          .width = 64,
                          .hidden = 64,
                          .vocabulary = 256,
                          .context = 64,
                          .head_norms = true};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
