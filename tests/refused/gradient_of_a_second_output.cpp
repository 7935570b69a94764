// refused: a gradient reaches output `got` of an operation, but an op passes on only the gradient of output `expected`
// shows: output_without_a_gradient
// diagnosis: refused, line, any, 0, 1
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct halves { // x in two parts of its features
  static constexpr char const* name = "halves";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    auto const half = in[0].shape.with_features(in[0].shape.features() / 2);
    return ct::inferred::one(in[0].type, half).and_also(in[0].type, half);
  }
  static constexpr void gradient(ct::backward& b) { b.add(0, ct::concatenate({b.gradient(), b.gradient()}, 2)); }
};
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto const parts = ct::emit_all<halves>({x}); // <- line
#ifdef CORRECT
    return ct::linear("head", parts[0], 97);
#else
    return ct::linear("head", parts[1], 97);
#endif
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
