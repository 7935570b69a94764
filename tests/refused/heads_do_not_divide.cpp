// refused: ct::self_attention: the number of heads is `got`, but must be a positive divisor of the width of the
// shows: heads_do_not_divide_the_width
// diagnosis: refused, any, any, 384, 5
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int heads = 6;
#else
constexpr int heads = 5;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = heads, .width = 384, .vocabulary = 256, .context = 64},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
