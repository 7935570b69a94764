// refused: ct::rotary_table: .head_width is `got`, but must be even and at least 2
// diagnosis: refused, any, any, 2, 21
// shows: head_width_is_odd
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int width = 60;
#else
constexpr int width = 63;
#endif

constexpr ct::llama model{
    .layers = 2, .heads = 3, .key_value_heads = 1, .width = width, .hidden = 64, .vocabulary = 256, .context = 64};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
