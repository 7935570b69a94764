// refused: an operation writes a parameter, an optimizer state or a setting directly, so a gradient that is not finite
#include <constrain/constrain.hpp>
namespace ct = constrain;

using task = ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 64, .vocabulary = 256, .context = 64}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

struct sign_op {
  static constexpr char const* name = "sign";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};

struct signs {
  struct hyper {
    float learning_rate = 1e-3f;
  };
  static constexpr void update(ct::update_rule& u) {
#ifdef CORRECT
    u.assign(u.parameter(), ct::emit<sign_op>({u.gradient(), u.parameter()}));
#else
    auto const gradient = u.gradient(), weight = u.parameter();
    gradient.owner().call<sign_op>({gradient.where(), weight.where()}, {weight.where()});
#endif
  }
};

template <> struct constrain::kernel<sign_op, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<float const>, ct::tensor<float>) {}
};

ct::trainer<task, signs> t; // <- here
