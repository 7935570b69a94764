// refused: cheapest: the second template argument must be a ct::task; write ct::task<model, objective,
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
constexpr int chosen = ct::cheapest<ct::mebibytes(64), task, ct::policies<>>::index;
#else
constexpr int chosen = ct::cheapest<ct::mebibytes(64), ct::causal_lm, ct::policies<>>::index; // <- here
#endif
