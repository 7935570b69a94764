// refused: an operation between a trained parameter and the loss has no gradient rule; give its op
// shows: no_gradient_rule
// diagnosis: refused, line, any, any, any
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct sign {
  static constexpr char const* name = "sign";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
#ifdef CORRECT
  static constexpr void gradient(ct::backward& b) { b.add(0, b.gradient()); }
#endif
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    x = ct::emit<sign>({x}); // <- line
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
