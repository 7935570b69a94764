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

// An op whose gradient rule calls another op with a parameter of a repeat.
struct gate {
  static constexpr char const* name = "gate";
  static constexpr inferred infer(operand_types const& in) { return inferred::one(in[0].type, in[0].shape); }
  static constexpr void gradient(backward& b) {
    b.add(0, multiply(b.gradient(), b.input(1), b.line()));
    b.add(1, multiply(b.gradient(), b.input(0), b.line()));
  }
};
struct gated_weights {
  constexpr value operator()(value tokens) const {
    auto const layer = [](value x) {
      auto const a = parameter(x, "a", shape(4, 4), role::weight, {.stddev = 0.5});
      auto const b = parameter(x, "b", shape(4, 4), role::weight, {.stddev = 0.5});
      return x + linear(x, emit<gate>({a, b}));
    };
    return linear("head", repeat("block", 2, embedding("token", tokens, {.vocabulary = 7, .width = 4}), layer), 7);
  }
};
using gated_weights_task = task<gated_weights{}, causal_lm, micro_batch{.sequences = 1, .tokens = 4}>;

} // namespace

template <> struct constrain::kernel<gate, cpu> {
  template <class real> static void run(call const&, tensor<real const> a, tensor<real const> b, tensor<real> y) {
    for (std::int64_t i = 0; i < y.count; ++i) y[i] = a[i] * b[i];
  }
};

TEST_CASE("differentiate: a gradient rule that reads a parameter of a repeat") {
  check_gradients<gated_weights_task>();
  check_gradients<gated_weights_task, accumulate<2>>();
}

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
