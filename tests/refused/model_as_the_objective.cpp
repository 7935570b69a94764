// refused: task: the objective must be default-constructible and a function from the logits and its labels to a loss
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#else
using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::gpt2,
                      ct::micro_batch{.sequences = 2}>;
#endif
ct::trainer<task> t; // <- here
