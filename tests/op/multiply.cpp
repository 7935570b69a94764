#include "check_gradients.hpp"
#include "first_gradient.hpp"
#include "op/call_kernel.hpp"
#include "relative_error.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::multiply>;
static_assert(rule.infer(types({f32(shape(2, 3)), f32(shape(2, 3))}), {}).outputs[0] == f32(shape(2, 3)));
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({f32(shape(2, 3)), f32(shape(2, 4))}), {}), 3, 4));
static_assert(rule.in_place == 0b11);

// A gate, a square, a product of two parameters.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    auto const gate = ct::silu(ct::linear("gate", x, 5)), up = ct::linear("up", x, 5);
    auto const v = ct::parameter(tokens, "v", shape(4, 5), ct::role::head, {.stddev = 0.02});
    auto const w = ct::parameter(tokens, "w", shape(4, 5), ct::role::head, {.stddev = 0.02});
    auto const y = gate * up;
    return ct::linear(ct::multiply(y, y) + up, w * v);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

// Layers whose weights are products.
struct layers {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4});
    return ct::linear("head",
                      ct::repeat("layer", 2, x,
                                 [](ct::value h) {
                                   auto const v = ct::parameter(h, "v", shape(4, 4), ct::role::weight, {.stddev = 0.2});
                                   auto const w = ct::parameter(h, "w", shape(4, 4), ct::role::weight, {.stddev = 0.2});
                                   return h + ct::linear(h, w * v);
                                 }),
                      7);
  }
};
using task_of_layers = ct::task<layers{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>;

} // namespace

TEST_CASE("multiply: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>>();
}

TEST_CASE("multiply: a product of two parameters as a weight, in mixed precision") {
  for (auto const* parameter : {"v", "w"})
    CHECK(relative_error(first_gradient<task, ct::precision::bf16>(parameter), first_gradient<task>(parameter)) < 0.03);
  using ct::accumulate;
  for (auto const* parameter : {"layer.v", "layer.w"})
    CHECK(relative_error(first_gradient<task_of_layers, accumulate<2>, ct::precision::bf16>(parameter),
                         first_gradient<task_of_layers, accumulate<2>>(parameter)) < 0.03);
}

TEST_CASE_TEMPLATE("multiply: also over its own operand", real, float, double) {
  shape const s(3, 7);
  auto const a = array<real>::random(s, 1), b = array<real>::random(s, 2);
  array<real> y(s);
  call_kernel<ct::op::multiply>(plain, a.in(), b.in(), y.out());
  for (std::size_t i = 0; i < 21; ++i) CHECK(y[i] == a[i] * b[i]);
  auto over_a = a, over_b = b;
  call_kernel<ct::op::multiply>(plain, over_a.in(), b.in(), over_a.out());
  call_kernel<ct::op::multiply>(plain, a.in(), over_b.in(), over_b.out());
  CHECK(same_bits(over_a.values(), y.values()));
  CHECK(same_bits(over_b.values(), y.values()));
}
