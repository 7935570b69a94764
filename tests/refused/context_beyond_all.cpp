// refused: a tensor has more than `expected` elements over all iterations and micro-batches
// diagnosis: tensor_too_large, any, any, 70368744177664, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int number = 64;
#else
constexpr int number = 2147483647;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = number},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
