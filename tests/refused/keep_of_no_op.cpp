// refused: checkpoint::keep<ops...>: an argument is not an op, or there are more than 16 arguments; write at most 16
// shows: checkpoint::keep<op::gelu>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::checkpoint::keep<ct::op::elementwise<ct::op::gelu>>> t;
#else
ct::trainer<task, ct::checkpoint::keep<ct::op::gelu>> t; // <- here
#endif
