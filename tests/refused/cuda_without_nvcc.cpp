// refused: device::cuda: this file is not compiled by nvcc; name it .cu and link constrain::cuda, or write device::cpu
// not for: nvcc
// shows: composition<device::cuda<sm<90>>>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using trainer = ct::trainer<task>;
#else
using trainer = ct::trainer<task, ct::device::cuda<ct::sm<90>>>;
#endif
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // <- here

inline void run() { trainer const t; } // constructing the trainer gives no second error
