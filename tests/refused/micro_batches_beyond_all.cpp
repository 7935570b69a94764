// refused: a tensor has more than `expected` elements over all iterations and micro-batches
// diagnosis: tensor_too_large, any, any, 70368744177664, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr int sequences = 2, micro_batches = 2;
#else
constexpr int sequences = 2147483647, micro_batches = 2147483647;
#endif

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = sequences}>;
static_assert(ct::trainer<task, ct::accumulate<micro_batches>>::batch_tokens <= 1024); // <- here
