// refused: a tensor has more than `expected` elements over all iterations and micro-batches
// diagnosis: tensor_too_large, any, any, 70368744177664, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int layers = 2, micro_batches = 2;
#else
constexpr int layers = 2147483647, micro_batches = 2147483647;
#endif

// The number of kernel launches would not fit into 64 bits.
using task = ct::task<ct::gpt2{.layers = layers, .heads = 2, .width = 16, .vocabulary = 64, .context = 8},
                      ct::causal_lm, ct::micro_batch{.sequences = 2}>;
static_assert(ct::trainer<task, ct::accumulate<micro_batches>>::kernel_launches >= 0); // <- here
