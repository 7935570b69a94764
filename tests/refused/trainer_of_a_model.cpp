// refused: trainer: the first template argument must be a ct::task
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task> t;
#else
ct::trainer<ct::gpt2> t; // <- here
#endif
