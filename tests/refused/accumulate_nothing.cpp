// refused: accumulate<N>: N must be at least 1; write accumulate<1> or leave the policy out
// shows: composition<accumulate<0>>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::accumulate<1>> t;
#else
ct::trainer<task, ct::accumulate<0>> t; // <- here
#endif
