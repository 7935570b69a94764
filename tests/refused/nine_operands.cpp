// refused: an operation has more inputs or outputs than a node can hold (8 and 9); split the operation
// diagnosis: too_many_operands, line, 0, 8, 9
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct sum {
  static constexpr char const* name = "sum";
  static constexpr ct::inferred infer(ct::operand_types const& in) {
    return ct::inferred::one(in[0].type, in[0].shape);
  }
  static constexpr void gradient(ct::backward& b) {
    for (int i = 0; i < b.inputs(); ++i) b.add(i, b.gradient());
  }
};

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
#ifdef CORRECT
    x = ct::emit<sum>({x, x, x, x, x, x, x, x});
#else
    x = ct::emit<sum>({x, x, x, x, x, x, x, x, x}); // <- line
#endif
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 4);
  }
};

using task = ct::task<model{}, ct::classification, ct::micro_batch{.sequences = 8, .tokens = 32}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
