// refused: optimizer::in_backward: precision::fp16 skips the whole step if a gradient is not finite, which is known
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adamw, ct::optimizer::in_backward;
#ifdef CORRECT
ct::trainer<task, in_backward<adamw>, ct::precision::bf16> t;
#else
ct::trainer<task, in_backward<adamw>, ct::precision::fp16> t; // <- here
#endif
