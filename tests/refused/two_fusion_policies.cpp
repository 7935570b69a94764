// refused: policies: more than one fusion policy is given; keep one, for example fusion::automatic
// shows: composition<fusion::automatic, fusion::none>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::fusion::none> t;
#else
ct::trainer<task, ct::fusion::automatic, ct::fusion::none> t; // <- here
#endif
