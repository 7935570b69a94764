// refused: inference: the first template argument must be a ct::task; write ct::inference<ct::task<model, objective,
// shows: inference_argument_is_not_a_task
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::inference<task> t;
#else
ct::inference<int> t; // <- here
#endif
