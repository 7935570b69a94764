// refused: ct::llama: .biases and .head_norms are both set, but of the supported models (Llama,
// shows: biases_with_head_norms
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
                          .head_norms = true};
using task = ct::task<model, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
