// refused: trainer: accumulate<N> is given twice; keep one, with N the micro-batches of one update
// shows: {0, 0, 2, 0, 0, 0, 0, 2, 0, false, true, true, false, 3, 1, false}
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::accumulate<8>> t;
#else
ct::trainer<task, ct::accumulate<2>, ct::accumulate<4>> t; // <- here
#endif
