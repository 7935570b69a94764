// refused: a value (line `expected`) defined in a loop, such as the body of a ct::repeat, is used outside of the loop
// diagnosis: value_left_its_repeat, line, 0, made, line
#include <constrain/constrain.hpp>
namespace ct = constrain;

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 97, .width = 64});
    auto weight = ct::parameter(x, "weight", ct::shape(64, 64), ct::role::weight, {.stddev = 0.02});
    x = ct::repeat("block", 3, x, [&](ct::value y) {
#ifndef CORRECT
      weight = ct::parameter(y, "weight", ct::shape(64, 64), ct::role::weight); // <- made
#endif
      return y + ct::linear(y, weight);
    });
    return ct::linear("head", ct::linear(x, weight), 97); // <- line
  }
};

using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 16}>;
static_assert(ct::trainer<task>::memory.peak <= ct::mebibytes(700)); // <- here
