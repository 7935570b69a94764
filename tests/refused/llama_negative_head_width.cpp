// refused: ct::llama: .head_width is `got`; give 0 or more (0 means .width / .heads)
// diagnosis: refused, any, any, 0, -1
// shows: head_width_is_negative
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int head_width = 4;
#else
constexpr int head_width = -1;
#endif

constexpr ct::llama model{.layers = 2,
                          .heads = 4,
                          .key_value_heads = 0,
                          .width = 64,
                          .hidden = 64,
                          .vocabulary = 256,
                          .context = 64,
                          .head_width = head_width,
                          .head_norms = true};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
