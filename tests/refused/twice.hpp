#pragma once

// An op outside of the library without its kernels, and a model that calls it. It is included after constrain.hpp,
// which g++ takes compiled only as a program's first include.
namespace ct = constrain;

struct twice_gradient {
  static constexpr char const* name = "twice_gradient";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};
struct twice {
  static constexpr char const* name = "twice";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.emit<twice_gradient>({b.gradient()}, {0}); }
};
/// The kernel of both.
struct doubles {
  template <class real> static void run(ct::call const&, ct::tensor<real const> x, ct::tensor<real> y) {
    for (std::int64_t i = 0; i < x.count; ++i) y[i] = x[i] + x[i];
  }
};

struct model_of_twice {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<twice>({x}), 97);
  }
};
template <class... policies>
using trainer_of_twice =
    ct::trainer<ct::task<model_of_twice{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>, policies...>;
