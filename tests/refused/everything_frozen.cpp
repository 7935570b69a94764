// refused: freeze, train_only: nothing would be trained; write fewer roles in freeze, or at least one role in
// shows: composition<train_only<>>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::train_only<ct::role::bias>> t;
#else
ct::trainer<task, ct::train_only<>> t; // <- here
#endif
