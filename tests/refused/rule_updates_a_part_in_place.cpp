// refused: but `update_in_place`, `average` and element-wise optimizers need the full parameter
// shows: part_is_updated_in_place
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct rule {
#ifdef CORRECT
  using base = ct::optimizer::sgd;
#endif
  using hyper = ct::optimizer::sgd::hyper;
  static constexpr void update(ct::update_rule& u) { ct::op::update_by<ct::optimizer::sgd>(u); }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
static_assert(ct::trainer<task, rule>::memory.peak <= ct::mebibytes(700)); // <- here
