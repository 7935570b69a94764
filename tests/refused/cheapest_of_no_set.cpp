// refused: cheapest: there must be 1 to 64 strategies; write each as ct::policies<...>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::cheapest<ct::mebibytes(64), task, ct::policies<ct::checkpoint::every<1>>>::trainer t;
#else
ct::cheapest<ct::mebibytes(64), task, ct::checkpoint::every<1>>::trainer t; // <- here
#endif
