// refused: optimizer::in_backward: with accumulate<N>, gradients are complete only after the last micro-batch
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adamw, ct::optimizer::in_backward;
#ifdef CORRECT
ct::trainer<task, in_backward<adamw>, ct::accumulate<1>> t;
#else
ct::trainer<task, in_backward<adamw>, ct::accumulate<2>> t; // <- here
#endif
