// refused: the model makes other parameters or settings for one entry (step, evaluate, predict, generate) than for
// shows: entries_differ
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct scaled_op {
  static constexpr char const* name = "scaled";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) { b.emit<scaled_op>({b.gradient(), b.input(1)}, {0}); }
};
template <> struct constrain::kernel<scaled_op, ct::cpu> {
  static void run(ct::call const&, ct::tensor<float const>, ct::tensor<double const>, ct::tensor<float>) {}
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 32, .width = 8});
#ifndef CORRECT
    if (tokens.shape().extent[0] > 1)
#endif
      x = ct::emit<scaled_op>({x, ct::setting(x, "first", 1)});
    return ct::linear("head", ct::emit<scaled_op>({x, ct::setting(x, "second", 1)}), 32);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;

ct::trainer<task> t; // <- here
