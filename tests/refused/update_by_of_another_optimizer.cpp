// refused: optimizer: its rule calls `op::update_by<O>`, but O would read other bytes as its hyperparameters
// shows: hyper_of_another_optimizer
#include <constrain/constrain.hpp>
namespace ct = constrain;

/// Updates biases with another optimizer than the other parameters.
struct of_two {
#ifdef CORRECT
  using biases = ct::optimizer::lion;
#else
  using biases = ct::optimizer::sgd;
#endif
  using base = ct::optimizer::muon<ct::optimizer::lion>;
  struct hyper {
    ct::optimizer::muon<ct::optimizer::lion>::hyper base{};
    ct::optimizer::sgd::hyper of_biases{};
  };
  static constexpr void update(ct::update_rule& u) {
    if (u.role() == ct::role::bias) ct::op::update_by<biases>(u);
    else ct::op::update_by<base>(u);
  }
};

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
ct::trainer<task, of_two> t; // <- here
