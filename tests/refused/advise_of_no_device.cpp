// refused: advise: the first argument must be a device policy; write ct::device::cpu{}, for example
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
auto const advice = ct::advise<task>(ct::device::cpu{}, ct::gibibytes(16));
#else
auto const advice = ct::advise<task>(task{}, ct::gibibytes(16)); // <- here
#endif
