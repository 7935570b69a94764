// refused: optimizer: its rule calls `assign` with a target that is not the parameter, its gradient or one of its
// shows: target_of_no_assign
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct doubles_the_gradient {
  struct hyper {};
  static constexpr void update(ct::update_rule& u) {
    auto const sum = u.gradient() + u.gradient();
#ifdef CORRECT
    u.assign(u.gradient(), sum);
    u.assign(u.parameter(), u.parameter() + u.gradient());
#else
    u.assign(sum, u.gradient());
    u.assign(u.parameter(), u.parameter() + sum);
#endif
  }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task, doubles_the_gradient> t; // <- here
