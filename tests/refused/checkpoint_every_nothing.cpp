// refused: checkpoint::every<k>: k is at least 1; write checkpoint::none to keep all activations
// shows: {0, 0, 0, 1, 0, 0, 0, 1, 0, true, true, true, false, 3, 1, false}
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::checkpoint::none> t;
#else
ct::trainer<task, ct::checkpoint::every<0>> t; // <- here
#endif
