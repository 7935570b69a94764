// refused: an op's gradient rule gives an input of `expected` elements a gradient of `got`
// shows: gradient_has_another_shape
// diagnosis: refused, line, 0, 2048, 32
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct gate_gradient {
  static constexpr char const* name = "gate_gradient";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
#ifdef CORRECT
    return ct::inferred::one(in[0].type, in[0].shape);
#else
    return ct::inferred::one(in[0].type, ct::shape(in[0].shape.rows()));
#endif
  }
};
struct gate {
  static constexpr char const* name = "gate";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.emit<gate_gradient>({b.gradient()}, {0}); }
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<gate>({x}), 97); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
