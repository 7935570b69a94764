// refused: policies: more than one optimizer is given; keep one, for example optimizer::adamw
// shows: composition<optimizer::sgd, optimizer::adamw>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::optimizer::sgd> t;
#else
ct::trainer<task, ct::optimizer::sgd, ct::optimizer::adamw> t; // <- here
#endif
