// refused: the O of quantized<O>, states_in<type, O> or by_role<O> must be an
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

using ct::optimizer::adafactor, ct::optimizer::adamw, ct::optimizer::averaged, ct::optimizer::quantized;
#ifdef CORRECT
ct::trainer<task, averaged<quantized<adamw>>> t;
#else
ct::trainer<task, averaged<quantized<adafactor>>> t; // <- here
#endif
