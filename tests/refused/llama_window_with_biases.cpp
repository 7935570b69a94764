// refused: ct::llama: .window is `got`, but .biases or .head_norms is set; of the supported models, only
// diagnosis: refused, any, any, 0, 32
// shows: window_with_biases_or_head_norms
#include <constrain/constrain.hpp>
namespace ct = constrain;

#ifdef CORRECT
constexpr bool biases = false;
#else
constexpr bool biases = true;
#endif

constexpr ct::llama model{.layers = 2,
                          .heads = 4,
                          .key_value_heads = 2,
                          .width = 64,
                          .hidden = 64,
                          .vocabulary = 256,
                          .context = 64,
                          .biases = biases,
                          .window = 32};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
