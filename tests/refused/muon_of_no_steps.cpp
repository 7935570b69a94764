// refused: optimizer::muon<O, steps>: `steps`, the number of Newton-Schulz steps, must be from 1 to 99; write for
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::optimizer::muon<ct::optimizer::adamw, 1>> t;
#else
ct::trainer<task, ct::optimizer::muon<ct::optimizer::adamw, 0>> t; // <- here
#endif
