#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::add>;
static_assert(rule.infer(types({f32(shape(2, 3)), f32(shape(2, 3))}), {}).outputs[0] == f32(shape(2, 3)));
static_assert(rule.infer(types({f64(shape{}), f64(shape{})}), {}).outputs[0] == f64(shape{}));
static_assert(refuses<ct::op::widths_differ>(rule.infer(types({f32(shape(2, 3)), f32(shape(2, 4))}), {}), 3, 4));
static_assert(refuses<ct::op::ranks_differ>(rule.infer(types({f32(shape(2, 3)), f32(shape(3))}), {}), 2, 1));
static_assert(rule.in_place == 0b11);
static_assert(rule.cost_of(types({f32(shape(2, 3)), f32(shape(2, 3))}), types({f32(shape(2, 3))}), {}).flops == 6);

// Sums of sums, a value added to itself, a parameter that is a term.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 6});
    auto const a = ct::linear("a", x, 5), b = ct::linear("b", x, 5);
    auto const twice = a + a;
    auto const w = ct::parameter(tokens, "w", shape(4, 5), ct::role::head, {.stddev = 0.02});
    auto const v = ct::parameter(tokens, "v", shape(4, 5), ct::role::head, {.stddev = 0.02});
    return ct::linear(ct::add(twice, b) + ct::silu(twice), w + v);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("add: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("add: also over its own operand", real, float, double) {
  shape const s(3, 7);
  auto const a = array<real>::random(s, 1), b = array<real>::random(s, 2);
  array<real> y(s);
  call_kernel<ct::op::add>(plain, a.in(), b.in(), y.out());
  for (std::size_t i = 0; i < 21; ++i) CHECK(y[i] == a[i] + b[i]);
  auto over_a = a, over_b = b;
  call_kernel<ct::op::add>(plain, over_a.in(), b.in(), over_a.out());
  call_kernel<ct::op::add>(plain, a.in(), over_b.in(), over_b.out());
  CHECK(same_bits(over_a.values(), y.values()));
  CHECK(same_bits(over_b.values(), y.values()));
}
