// refused: a value (line `expected`) defined in a loop, such as the body of a ct::repeat, is used outside of the loop
// diagnosis: value_left_its_repeat, line, 0, made, line
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    ct::value inner = x;
    x = ct::repeat("block", 3, x, [&](ct::value y) {
      inner = ct::linear("mlp", y, 64); // <- made
      return inner;
    });
#ifdef CORRECT
    inner = x;
#endif
    return ct::linear("head", x + inner, 97); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
