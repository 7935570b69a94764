// refused: an op's gradient rule gives a gradient to input `got`, counted from 0, but the call has `expected` inputs
// shows: gradient_of_no_input
// diagnosis: refused, line, 0, 1, 3
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct gate {
  static constexpr char const* name = "gate";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
#ifdef CORRECT
  static constexpr void gradient(ct::backward& b) { b.emit<gate>({b.gradient()}, {0}); }
#else
  static constexpr void gradient(ct::backward& b) { b.emit<gate>({b.gradient()}, {3}); }
#endif
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    return ct::linear("head", ct::emit<gate>({x}), 97); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
