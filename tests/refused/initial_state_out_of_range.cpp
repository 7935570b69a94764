// refused: optimizer: the `initial` of a state is not a number in the range of the state's type: u8 from 0 to 255
// shows: state_is_out_of_range
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// Adds the sum of all gradients to the weights.
struct with_momentum {
  struct hyper {};
  static constexpr void update(ct::update_rule& u) {
#ifdef CORRECT
    auto const momentum = u.state("momentum", u.shape(), u.type(), 0);
#else
    auto const momentum = u.state("momentum", u.shape(), u.type(), 1e300);
#endif
    u.assign(momentum, momentum + u.gradient());
    u.assign(u.parameter(), u.parameter() + momentum);
  }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task, with_momentum> t; // <- here
