// refused: largest_batch: checkpoint::budget chooses what to recompute for one given micro-batch; write
#include <constrain/constrain.hpp>
namespace ct = constrain;

constexpr ct::gpt2 model{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64};
#ifdef CORRECT
constexpr auto batch = ct::largest_batch<ct::mebibytes(8), model, ct::causal_lm, ct::checkpoint::keep<>>;
#else
constexpr auto batch =
    ct::largest_batch<ct::mebibytes(8), model, ct::causal_lm, ct::checkpoint::budget<ct::mebibytes(8)>>; // <- here
#endif
