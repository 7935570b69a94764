#include "fingerprints/training.hpp"

// bf16 and fp64; the last set has a model of the ops that GPT-2 lacks.

namespace ct = constrain;
using namespace constrain::test;
using task = fingerprinted_task<6>;
using half_task = fingerprinted_task<3>;

namespace {

struct layer {
  constexpr ct::value operator()(ct::value x) const {
    auto const gated = ct::silu(ct::linear("gate", x, 70)) * ct::linear("up", x, 70);
    return x + ct::dropout(ct::linear("down", gated, x.features()));
  }
};
// A weight in a repeat, in one inside that, and outside; a value read in a deeper loop than its own.
struct nested {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const shared = ct::parameter(tokens, "shared", ct::shape(34, 34), ct::role::weight, {.stddev = 0.1});
    auto const x = ct::linear(ct::embedding("token", tokens, {.vocabulary = 67, .width = 34}), shared);
    auto const y = ct::repeat("outer", 3, x, [&](ct::value y) {
      auto const captured = ct::linear(ct::layer_norm("norm", y), shared);
      return y + ct::repeat("inner", 2, y + x, [&](ct::value z) { return ct::apply("layer", layer{}, z) * captured; });
    });
    return ct::linear("head", ct::linear(y, shared), 5);
  }
};
using nested_task = ct::task<nested{}, ct::causal_lm, ct::micro_batch{.sequences = 3, .tokens = 11}>;

template <class... policies> bool holds(int set, typename ct::trainer<policies...>::hyper const& hyper) {
  return gives_recorded_bits<ct::trainer<policies...>>(set, hyper, {.seed = 3, .clip_norm = 0.5, .dropout = 0.2});
}

} // namespace

int main() {
  using ct::accumulate, ct::checkpoint::every, ct::precision::bf16, ct::precision::fp64, ct::optimizer::momentum;
  bool const whole = holds<task, bf16>(8, {.learning_rate = 1e-2f});
  bool const parts = holds<half_task, bf16, accumulate<2>, every<2>>(9, {.learning_rate = 1e-2f, .weight_decay = 0.1f});
  bool const wide = holds<task, fp64>(10, {.learning_rate = 1e-2f, .weight_decay = 0.1f});
  bool const deep =
      holds<nested_task, fp64, momentum, accumulate<2>, every<2>>(11, {.learning_rate = 1e-2f, .momentum = 0.8f});
  return whole && parts && wide && deep ? EXIT_SUCCESS : EXIT_FAILURE;
}
