// refused: the model has a setting named dropout, clip_norm, inverse_label_count, loss_scale or
// diagnosis: refused, line, any, any, any
// shows: setting_is_taken
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
  template <class real>
  static void run(ct::call const&, ct::tensor<real const>, ct::tensor<double const>, ct::tensor<real>) {}
};

#ifdef CORRECT
constexpr char const* name = "keep";
#else
constexpr char const* name = "dropout";
#endif
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 32, .width = 8});
    auto const factor = ct::setting(x, name, 1); // <- line
    return ct::linear("head", ct::emit<scaled_op>({x, factor}), 32);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>;

ct::trainer<task> t; // <- here
