// refused: ct::self_attention: the number of heads is `got`, but must be a positive divisor of the width of the
// shows: heads_do_not_divide_the_width
// diagnosis: refused, any, any, 64, -2
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int number = 2;
#else
constexpr int number = -2;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = number, .width = 64, .vocabulary = 256, .context = 64},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
