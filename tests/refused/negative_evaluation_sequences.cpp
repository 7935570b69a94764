// refused: task: micro_batch::evaluation_sequences is `got`; give 0 or more (0 means as many as `sequences`)
// diagnosis: refused, any, any, 0, -1
// shows: evaluation_sequences_are_negative
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int sequences = 0;
#else
constexpr int sequences = -1;
#endif
using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 16, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2, .evaluation_sequences = sequences}>;
ct::trainer<task> t; // <- here
