// refused: largest_batch: not even one sequence fits in the limit; `with_missing_bytes` shows the limit and
// shows: with_missing_bytes
#include <constrain/constrain.hpp>
namespace ct = constrain;

constexpr ct::gpt2 model{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64};
#ifdef CORRECT
constexpr auto batch = ct::largest_batch<ct::mebibytes(64), model, ct::causal_lm>;
#else
constexpr auto batch = ct::largest_batch<ct::kibibytes(64), model, ct::causal_lm>; // <- here
#endif
