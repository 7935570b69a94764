// refused: cheapest: no strategy fits in the limit; the template arguments of `strategy_with_missing_bytes` are
// shows: strategy_with_missing_bytes
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using every_1 = ct::policies<ct::checkpoint::every<1>>;
#ifdef CORRECT
ct::cheapest<ct::mebibytes(64), task, ct::policies<>, every_1>::trainer t;
#else
ct::cheapest<ct::kibibytes(64), task, ct::policies<>, every_1>::trainer t; // <- here
#endif
