// refused: run: this kernel has `needs_of`, but is defined after the first use of a trainer that calls it
// shows: needs_are_planned<
// shows: twice
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
struct doubles_with_scratch : doubles {
  static constexpr ct::kernel_needs needs_of(ct::operand_extents const& in, ct::operand_extents const&) {
    return {.scratch = in[0].count};
  }
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<twice>({x}), 97);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
using trainer = ct::trainer<task>;

#ifdef CORRECT
template <> struct ct::kernel<twice, ct::cpu> : doubles_with_scratch {};
#endif
static_assert(trainer::memory.peak < ct::mebibytes(1)); // needs the kernels' needs
#ifndef CORRECT
template <> struct ct::kernel<twice, ct::cpu> : doubles_with_scratch {};
#endif
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {}; // has none

void use(trainer& t, ct::batch const& w) {
  t.step(w); // <- here
}
