#include "check_gradients.hpp"
#include "first_gradient.hpp"
#include "relative_error.hpp"

using namespace constrain;
using namespace constrain::test;

namespace {

// Weights that are activations, one of them read by the iterations of a repeat: their gradients are fp32 in bf16, too.
struct computed_weights {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 7, .width = 4});
    auto const w = parameter(x, "w", shape(4, 4), role::weight, {.stddev = 0.4});
    auto const v = parameter(x, "v", shape(4, 4), role::weight, {.stddev = 0.4});
    auto const matrix = silu(w);
    auto const layer = [&](value h) { return h + linear(linear(h, matrix), v + matrix); };
    return linear("head", linear(repeat("layer", 2, x, layer), gelu(v)), 7);
  }
};
using computed_weights_task = task<computed_weights{}, causal_lm, micro_batch{.sequences = 1, .tokens = 4}>;

// One parameter as the weight and the bias of one call, whose gradients accumulate in the same buffer.
struct read_twice {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 7, .width = 4});
    auto const both = parameter(x, "both", shape(4), role::norm, {.constant = 0.5, .stddev = 0.2});
    return linear("head", emit<op::layer_norm>({x, both, both}, layer_norm_options{}), 7);
  }
};
using read_twice_task = task<read_twice{}, causal_lm, micro_batch{.sequences = 1, .tokens = 4}>;

} // namespace

TEST_CASE("differentiate: a parameter that one call reads twice") {
  check_gradients<read_twice_task>();
  check_gradients<read_twice_task, accumulate<2>>();
}

TEST_CASE("differentiate: weights that are activations") {
  check_gradients<computed_weights_task>();
  using twice = accumulate<2>;
  for (auto const* parameter : {"w", "v"}) {
    auto const expected = first_gradient<computed_weights_task, twice>(parameter);
    auto const kept = first_gradient<computed_weights_task, twice, precision::bf16>(parameter);
    CHECK(relative_error(kept, expected) < 0.03);
    CHECK(first_gradient<computed_weights_task, twice, precision::bf16, checkpoint::every<1>>(parameter) == kept);
  }
}
