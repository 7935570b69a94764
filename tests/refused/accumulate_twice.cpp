// refused: policies: more than one accumulate policy is given; keep one, for example accumulate<4>
// shows: composition<accumulate<2>, accumulate<4>>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::accumulate<8>> t;
#else
ct::trainer<task, ct::accumulate<2>, ct::accumulate<4>> t; // <- here
#endif
