// refused: a template argument is not a policy; write each policy as a separate argument, for example precision
// shows: composition<float>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::precision::fp32> t;
#else
ct::trainer<task, float> t; // <- here
#endif
