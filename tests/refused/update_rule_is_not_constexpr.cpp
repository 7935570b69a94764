// refused: optimizer: its `update(ct::update_rule&)` is not a constant expression; make it and the functions it calls
// shows: update_is_not_constant
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct nothing {
  struct hyper {
    float learning_rate = 1e-3f;
  };
#ifdef CORRECT
  static constexpr void update(ct::update_rule& u) { u.assign(u.parameter(), u.parameter()); }
#else
  static void update(ct::update_rule& u) { u.assign(u.parameter(), u.parameter()); }
#endif
};

ct::trainer<task, nothing> t; // <- here
