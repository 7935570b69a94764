// refused: task: the objective must be default-constructible and a function from the logits and its labels to a loss
// shows: objective_is_not_a_function
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct objective {
#ifdef CORRECT
  constexpr ct::value operator()(ct::value logits, ct::value labels) const { return ct::cross_entropy(logits, labels); }
#else
  constexpr ct::value operator()(ct::value logits) const { return logits; }
#endif
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, objective,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
