// refused: task: the model or the objective is not a constant expression
// shows: model_is_not_constant
// diagnosis: refused, 0, 0, 0, 0
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct objective {
#ifdef CORRECT
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
#else
  ct::value operator()(ct::value logits, ct::value labels) const {
#endif
      return ct::cross_entropy(logits, labels);
}
}
;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, objective,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task> t; // <- here
