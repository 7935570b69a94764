// refused: checkpoint::budget: the trainer needs `got` bytes more than the limit, `expected`, with the smallest plan
// shows: 262144
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::checkpoint::budget<ct::mebibytes(64)>> t;
#else
ct::trainer<task, ct::checkpoint::budget<ct::kibibytes(256)>> t; // <- here
#endif
