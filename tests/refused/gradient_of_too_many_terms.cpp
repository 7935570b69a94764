// refused: an op's gradient rule adds more than `expected` terms to the gradients of its inputs; add terms of the same
// shows: too_many_gradient_terms
// diagnosis: refused, line, 0, 16, 17
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct gate {
  static constexpr char const* name = "gate";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) {
#ifdef CORRECT
    b.add(0, b.gradient());
#else
    for (int k = 0; k < 17; ++k) b.add(0, b.gradient());
#endif
  }
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<gate>({x}), 97); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
