// refused: optimizer: its rule averages the weights, but precision::pure_bf16 stores them in 16 bits, so evaluation
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using averaged = ct::optimizer::averaged<ct::optimizer::adamw>;
#ifdef CORRECT
ct::trainer<task, averaged, ct::precision::bf16> t;
#else
ct::trainer<task, averaged, ct::precision::pure_bf16> t; // <- here
#endif
