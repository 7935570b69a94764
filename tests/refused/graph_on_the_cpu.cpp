// refused: launch::graph: only a CUDA device captures graphs; write device::cuda<sm<90>> or launch::eager
// shows: composition<launch::graph>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using trainer = ct::trainer<task>;
#else
using trainer = ct::trainer<task, ct::launch::graph>;
#endif
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // <- here

inline void run() { trainer const t; } // constructing the trainer gives no second error
