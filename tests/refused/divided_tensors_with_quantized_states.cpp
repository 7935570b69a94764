// refused: parallel::tensor: an operation, `op`, of the optimizer or of a policy's pass needs a gradient, parameter or
// diagnosis: refused, any, any, any, any
// shows: divided_tensor_is_read
// layouts: op::quantized_update<optimizer::adamw>, divided, replicated
// with MPI
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using optimizer = ct::optimizer::quantized<ct::optimizer::adamw>;
#ifdef CORRECT
template struct ct::entries<task, ct::policies<ct::parallel::tensor<2>, ct::optimizer::adamw>>;
#else
template struct ct::entries<task, ct::policies<ct::parallel::tensor<2>, optimizer>>; // <- here
#endif
