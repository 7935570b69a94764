// refused: optimizer::states_in<type, O>: `type` must be dtype::bf16 or dtype::f32
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adamw, ct::optimizer::in_backward, ct::optimizer::states_in;
#ifdef CORRECT
ct::trainer<task, in_backward<states_in<ct::dtype::bf16, adamw>>> t;
#else
ct::trainer<task, in_backward<states_in<ct::dtype::f16, adamw>>> t; // <- here
#endif
