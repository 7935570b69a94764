// refused: optimizer: its rule gives two states of a parameter the same name
// shows: state_named_twice
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
#ifdef CORRECT
using optimizer = ct::optimizer::averaged<ct::optimizer::adamw>;
#else
using optimizer = ct::optimizer::averaged<ct::optimizer::averaged<ct::optimizer::adamw>>;
#endif

ct::trainer<task, optimizer> t; // <- here
