// refused: policies: more than one precision is given; keep one
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::inference<task, ct::precision::bf16> t;
#else
ct::inference<task, ct::precision::bf16, ct::precision::fp16> t; // <- here
#endif
