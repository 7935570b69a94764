// refused: run: this kernel has a member `needs_of` that cannot be called with the operands
// shows: needs_can_be_called<
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
template <> struct ct::kernel<twice, ct::cpu> : doubles {
#ifdef CORRECT
  static constexpr ct::kernel_needs needs_of(auto const& in, auto const&) { return {.scratch = in[0].count}; }
#else
  static constexpr ct::kernel_needs needs_of(auto const& in) { return {.scratch = in[0].count}; }
#endif
};
template <> struct ct::kernel<twice_gradient, ct::cpu> : doubles {};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<twice>({x}), 97);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
using trainer = ct::trainer<task>;

static_assert(trainer::memory.peak < ct::mebibytes(1)); // <- here
