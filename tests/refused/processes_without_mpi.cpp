// refused: parallel: training in several processes needs MPI, but this program is compiled without MPI; install
// shows: composition<parallel::ddp>
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

#ifdef CORRECT
ct::trainer<task, ct::parallel::none> t;
#else
ct::trainer<task, ct::parallel::ddp> t; // <- here
#endif
