// refused: policies: more than one launch policy is given; keep one, for example launch::eager
// shows: composition<launch::eager, launch::eager>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 64, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using trainer = ct::trainer<task, ct::launch::eager>;
#else
using trainer = ct::trainer<task, ct::launch::eager, ct::launch::eager>;
#endif
static_assert(trainer::memory.peak <= ct::mebibytes(700)); // <- here
