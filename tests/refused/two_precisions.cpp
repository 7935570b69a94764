// refused: policies: more than one precision is given; keep one, for example precision::fp32
// shows: composition<precision::fp32, precision::fp64>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::precision::fp64> t;
#else
ct::trainer<task, ct::precision::fp32, ct::precision::fp64> t; // <- here
#endif
