// refused: checkpoint::budget<limit>: the limit must be at least 1 byte; write the number of bytes that the trainer may
// shows: checkpoint::budget<
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::checkpoint::budget<ct::mebibytes(64)>> t;
#else
ct::trainer<task, ct::checkpoint::budget<ct::bytes(-1)>> t; // <- here
#endif
