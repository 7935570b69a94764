// refused: an extent is `got`, but must be at least `expected`
// diagnosis: extent_below_one, any, any, 1, -8
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int number = 8;
#else
constexpr int number = -8;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = number, .vocabulary = 256, .context = 64},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
