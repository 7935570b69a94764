// refused: policies: more than one attention policy is given; keep one, for example attention::flash
// shows: composition<attention::flash, attention::flash>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using trainer = ct::trainer<task, ct::attention::flash>;
#else
using trainer = ct::trainer<task, ct::attention::flash, ct::attention::flash>;
#endif
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // <- here
