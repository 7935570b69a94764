// refused: device::cuda<sm<n>>: the kernels need compute capability 8.0 or higher; write sm<80> or a higher n
// not for: gnu clang
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using trainer = ct::trainer<task, ct::device::cuda<ct::sm<80>>>;
#else
using trainer = ct::trainer<task, ct::device::cuda<ct::sm<75>>>;
#endif
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // <- here
