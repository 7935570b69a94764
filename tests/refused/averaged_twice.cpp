// refused: optimizer: a wrapper is given twice or in the wrong order; write each at most once, in the order
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adamw, ct::optimizer::averaged;
#ifdef CORRECT
ct::trainer<task, averaged<adamw>> t;
#else
ct::trainer<task, averaged<averaged<adamw>>> t; // <- here
#endif
