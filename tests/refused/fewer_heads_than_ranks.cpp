// refused: parallel::tensor: an operation, `op`, has `got` heads, fewer than the `expected` ranks
// diagnosis: refused, any, any, 4, 2
// shows: fewer_heads_than_ranks
// layouts: op::flash_attention, divided, replicated
// with MPI
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
constexpr int ranks = 2;
#else
constexpr int ranks = 4;
#endif
template struct ct::entries<task, ct::policies<ct::parallel::tensor<ranks>>>; // <- here
