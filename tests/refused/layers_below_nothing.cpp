// refused: ct::repeat: the number of iterations is
// shows: repeat_of_nothing
// diagnosis: refused, any, any, 1, -1
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int number = 2;
#else
constexpr int number = -1;
#endif

using task = ct::task<ct::gpt2{.layers = number, .heads = 2, .width = 64, .vocabulary = 256, .context = 64},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
