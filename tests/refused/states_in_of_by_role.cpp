// refused: the O of quantized<O>, states_in<type, O> or by_role<O> must be an
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adamw, ct::optimizer::by_role, ct::optimizer::states_in;
#ifdef CORRECT
ct::trainer<task, by_role<states_in<ct::dtype::bf16, adamw>>> t;
#else
ct::trainer<task, states_in<ct::dtype::bf16, by_role<adamw>>> t; // <- here
#endif
