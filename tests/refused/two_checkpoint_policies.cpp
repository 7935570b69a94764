// refused: policies: more than one checkpoint policy is given; keep one, for example checkpoint::sqrt
// shows: composition<checkpoint::none, checkpoint::every<1>>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::checkpoint::every<1>> t;
#else
ct::trainer<task, ct::checkpoint::none, ct::checkpoint::every<1>> t; // <- here
#endif
