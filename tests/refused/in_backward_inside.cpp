// refused: optimizer::in_backward<O>: another optimizer wraps it; write in_backward outermost, as in
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adamw, ct::optimizer::averaged, ct::optimizer::in_backward;
#ifdef CORRECT
ct::trainer<task, in_backward<averaged<adamw>>> t;
#else
ct::trainer<task, averaged<in_backward<adamw>>> t; // <- here
#endif
