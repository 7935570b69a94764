// refused: two extents that must be equal are `expected` and `got`
// shows: widths_differ
// diagnosis: refused, line, 0, 64, 1
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct row_sum {
  static constexpr char const* name = "row_sum";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    auto s = in[0].shape;
    s.extent[s.rank - 1] = 1;
    return ct::inferred::one(in[0].type, s);
  }
};
struct gate {
  static constexpr char const* name = "gate";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) {
#ifdef CORRECT
    b.emit<ct::op::add>({b.gradient(), b.input(0)}, {0});
#else
    b.emit<ct::op::add>({b.gradient(), ct::emit<row_sum>({b.input(0)})}, {0});
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
