// refused: optimizer: two states of a parameter have the same name; give each state a different name
// shows: state_named_twice
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// Adds the sum of the last two gradients to the weights.
struct last_two {
  struct hyper {};
  static constexpr void update(ct::update_rule& u) {
    auto const last = u.state("last");
#ifdef CORRECT
    auto const sum = u.state("sum");
#else
    auto const sum = u.state("last");
#endif
    u.assign(sum, last + u.gradient());
    u.assign(last, u.gradient());
    u.assign(u.parameter(), u.parameter() + sum);
  }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task, last_two> t; // <- here
