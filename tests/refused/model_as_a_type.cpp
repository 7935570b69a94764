// own error
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#else
using task = ct::task<ct::gpt2, ct::causal_lm, ct::micro_batch{.sequences = 2}>; // <- here
#endif
ct::trainer<task> t;
