// refused: run: this op has no kernel for this device and these operands
// shows: kernel_exists<
// shows: twice
// shows: cpu
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
#ifdef CORRECT
template <> struct ct::kernel<twice, ct::cpu> : doubles {};
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {};
#else
struct doubles_floats {
  static void run(ct::call const& c, ct::tensor<float const> x, ct::tensor<float> y) { doubles::run(c, x, y); }
};
template <> struct ct::kernel<twice, ct::cpu> : doubles_floats {};
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles_floats {};
#endif
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<twice>({x}), 97); // <- line
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;

void use(ct::trainer<task, ct::precision::bf16>& t, ct::batch const& w) {
  t.step(w), t.predict(w.inputs); // <- here
}
