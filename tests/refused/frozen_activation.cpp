// refused: freeze, train_only: a given role is not a role of trainable parameters; write only role::weight,
// shows: freeze<role::
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::freeze<ct::role::embedding>> t;
#else
ct::trainer<task, ct::freeze<ct::role::activation>> t; // <- here
#endif
