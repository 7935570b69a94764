// refused: parallel::tensor: an operation, `op`, of the optimizer or of a policy's pass needs a gradient, parameter or
// diagnosis: refused, any, any, any, any
// shows: divided_tensor_is_read
// layouts: add_noise, divided, replicated
// with MPI
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct add_noise {
  static constexpr char const* name = "add_noise";
  static constexpr char const* layouts = "* -> *";
  static constexpr bool draws_random = true;
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};
template <> struct constrain::kernel<add_noise, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};

// Adds noise to each gradient before the update.
template <class O> struct noisy {
  using base = O;
  static constexpr char const* name = "noisy";
  struct hyper {
    typename O::hyper base{};
  };
  static constexpr void update(ct::update_rule& u) {
    u.assign(u.gradient(), ct::emit<add_noise>({u.gradient()}));
    ct::op::update_by<O>(u);
  }
};

using optimizer = noisy<ct::optimizer::adamw>;
#ifdef CORRECT
template struct ct::entries<task, ct::policies<ct::parallel::zero<3, 2>, optimizer>>;
#else
template struct ct::entries<task, ct::policies<ct::parallel::tensor<2>, optimizer>>; // <- here
#endif
