// refused: parallel::tensor: an operation, `op`, of the optimizer or of a policy's pass needs a gradient, parameter or
// diagnosis: refused, any, any, any, any
// shows: divided_tensor_is_read
// layouts: norm_of, divided, replicated
// with MPI
#include <constrain/model/gpt2.hpp>
#include <constrain/model/objective/causal_lm.hpp>
#include <constrain/train/entries.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct norm_of {
  static constexpr char const* name = "norm_of";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, ct::shape(1));
  }
};
struct scaled_by {
  static constexpr char const* name = "scaled_by";
  static constexpr char const* layouts = "*, - -> *";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};
template <> struct constrain::kernel<norm_of, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float>) {}
};
template <> struct constrain::kernel<scaled_by, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float const>, ct::tensor<float>) {}
};

// Scales each parameter by its norm after the update.
template <class O> struct normalized {
  using base = O;
  static constexpr char const* name = "normalized";
  struct hyper {
    typename O::hyper base{};
  };
  static constexpr void update(ct::update_rule& u) {
    ct::op::update_by<O>(u);
    u.assign(u.parameter(), ct::emit<scaled_by>({u.parameter(), ct::emit<norm_of>({u.parameter()})}));
  }
};

using optimizer = normalized<ct::optimizer::adamw>;
#ifdef CORRECT
template struct ct::entries<task, ct::policies<ct::parallel::ddp, optimizer>>;
#else
template struct ct::entries<task, ct::policies<ct::parallel::tensor<2>, optimizer>>; // <- here
#endif
