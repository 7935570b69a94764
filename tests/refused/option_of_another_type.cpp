// refused: an op's `options` must be a struct of at most six fields, each an integer, a bool, an enum, a float
// shows: options
#include <constrain/constrain.hpp>

namespace ct = constrain;

struct squeeze_op {
#ifdef CORRECT
  struct options {
    double limit = 1;
  };
#else
  struct options {
    char const* limit = "one";
  };
#endif
  static constexpr char const* name = "squeeze";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
};
constexpr ct::value squeeze(ct::value x, int line = __builtin_LINE()) {
  return ct::emit<squeeze_op>({x}, {}, line); // <- here
}
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return squeeze(ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 7));
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;
constexpr auto program = task::write(ct::entry::evaluate, ct::dtype::f32);
static_assert(program.failure.ok());
