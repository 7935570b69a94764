// refused: a tensor has more than `expected` elements over all iterations and micro-batches
// diagnosis: tensor_too_large, any, any, 70368744177664, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int layers = 2, width = 64;
#else
constexpr int layers = 1 << 30, width = 1 << 20;
#endif

using task = ct::task<ct::gpt2{.layers = layers, .heads = 2, .width = width, .vocabulary = 256, .context = 64},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
