// refused: policies: more than one device is given; keep one, for example device::cpu
// shows: composition<device::cpu, device::cpu>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using trainer = ct::trainer<task, ct::device::cpu>;
#else
using trainer = ct::trainer<task, ct::device::cpu, ct::device::cpu>;
#endif
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // <- here
