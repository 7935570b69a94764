// refused: run: this op has no kernel for this device and these operands
// shows: [with op=twice, device=cuda<sm<90>>,
// not for: gnu clang
// diagnosis: refused, line, 0, any, any
#include <constrain/constrain.hpp>
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
struct doubles {
  template <class real> static void run(ct::call const&, ct::tensor<real const> x, ct::tensor<real> y) {
    for (std::int64_t i = 0; i < x.count; ++i) y[i] = x[i] + x[i];
  }
};
template <> struct ct::kernel<twice, ct::cpu> : doubles {};
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {};
#ifdef CORRECT
template <class architecture> struct ct::kernel<twice, ct::cuda<architecture>> : doubles {};
template <class architecture> struct ct::kernel<twice_gradient, ct::cuda<architecture>> : doubles {};
#endif
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<twice>({x}), 97); // <- line
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;

using trainer = ct::trainer<task, ct::device::cuda<ct::sm<90>>>;

void use(trainer& t, ct::batch const& b) {
  t.step(b); // <- here
  t.predict(b.inputs);
}
