// refused: checkpoint::every<k>: k must be at least 1; write checkpoint::none to keep all activations
// shows: composition<checkpoint::every<0>>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::checkpoint::none> t;
#else
ct::trainer<task, ct::checkpoint::every<0>> t; // <- here
#endif
