// refused: task: a micro-batch has `expected` sequences of `got` tokens, but needs at least one of each
// shows: micro_batch_is_empty
// diagnosis: refused, 0, 0, 2, -1
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int number = 8;
#else
constexpr int number = -1;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = number},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
