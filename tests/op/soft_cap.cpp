#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::soft_cap>;
constexpr auto infer(ct::operand_types const& in, double cap = 30) {
  return rule.infer(in, ct::pack(ct::soft_cap_options{.cap = cap}));
}
static_assert(infer(types({f32(shape(4, 3))})).outputs[0] == f32(shape(4, 3)));
constexpr auto of_reals = types({f32(shape(4, 3))});
constexpr bool refuses_cap(double cap) {
  return refuses<ct::op::soft_cap::cap_is_out_of_range>(infer(of_reals, cap), 0, 0);
}
static_assert(refuses_cap(0) && refuses_cap(-1) && refuses_cap(std::numeric_limits<double>::infinity()));
static_assert(refuses_cap(std::numeric_limits<double>::quiet_NaN()));
static_assert(refuses_cap(1e39) && refuses_cap(1e-46)); // infinite and 0 in fp32
static_assert(!refuses_cap(1e38) && !refuses_cap(1e-37));
static_assert(refuses<ct::op::integers_instead_of_floats>(infer(types({i32(shape(4))})), 0, 0));

/// A language model whose logits stay within (-1, 1).
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 40, .width = 6});
    return ct::soft_cap(ct::linear("head", x, 40), 1);
  }
};
template <int sequences>
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = sequences, .tokens = 16}>;

template <class... list> using trainer = ct::trainer<task<8>, ct::precision::fp64, ct::optimizer::sgd, list...>;
using in_chunks = trainer<ct::fusion::all>;

} // namespace

TEST_CASE("soft_cap: gradients") {
  check_gradients<task<1>>();
  check_gradients<task<1>, ct::accumulate<2>>();
}

TEST_CASE_TEMPLATE("soft_cap: the function and its derivative", real, float, double) {
  auto const x = array<real>::random(shape(300), 1, 20), dy = array<real>::random(shape(300), 2);
  array<real> y(shape(300)), dx(shape(300));
  auto const options = ct::pack(ct::soft_cap_options{.cap = 5});
  call_kernel<ct::op::soft_cap>(ct::call{options, no_parameters}, x.in(), y.out());
  call_kernel<ct::op::soft_cap_gradient>(ct::call{options, no_parameters}, dy.in(), y.in(), dx.out());
  for (std::size_t i = 0; i < 300; ++i) {
    double const t = std::tanh(static_cast<double>(x[i]) / 5), expected = static_cast<double>(dy[i]) * (1 - t * t);
    CHECK(std::abs(static_cast<double>(y[i]) - 5 * t) < 5 * tolerance<real>);
    CHECK(std::abs(static_cast<double>(dx[i]) - expected) < tolerance<real>);
  }
  array<real> const far(shape(4), {-1e30, -1000, 1000, 1e30});
  array<real> capped(shape(4));
  call_kernel<ct::op::soft_cap>(ct::call{options, no_parameters}, far.in(), capped.out());
  CHECK(capped.values() == std::vector<real>{-5, -5, 5, 5});
}

TEST_CASE("soft_cap: capped logits are computed in chunks of rows, too") {
  CHECK(2 * in_chunks::memory.activations.count() < trainer<>::memory.activations.count());
  auto const batch = random_batch::draw<trainer<>>(1);
  trainer<> whole({.learning_rate = 0.1f}, {.seed = 1});
  in_chunks chunks({.learning_rate = 0.1f}, {.seed = 1});
  for (int step = 0; step < 3; ++step)
    CHECK(chunks.step(chunks.batch(batch.inputs, batch.labels)).loss ==
          doctest::Approx(whole.step(whole.batch(batch.inputs, batch.labels)).loss).epsilon(1e-13));
  auto const weights = [](auto const& t) {
    std::vector<double> all;
    for (auto const& p : t.parameters()) {
      std::vector<double> values(static_cast<std::size_t>(p.size()));
      p.copy_to(std::span(values));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  CHECK(relative_error(weights(chunks), weights(whole)) < 1e-13);
}

TEST_CASE("soft_cap: where a result in 16 bits is rounded beyond the cap, the gradient is 0") {
  array<ct::bfloat16> x(shape(1)), dy(shape(1)), y(shape(1)), dx(shape(1));
  x[0] = 1000, dy[0] = 1;
  auto const options = ct::pack(ct::soft_cap_options{.cap = 30.1});
  call_kernel<ct::op::soft_cap>(ct::call{options, no_parameters}, x.in(), y.out());
  call_kernel<ct::op::soft_cap_gradient>(ct::call{options, no_parameters}, dy.in(), y.in(), dx.out());
  CHECK(static_cast<float>(y[0]) == 30.125f);
  CHECK(static_cast<float>(dx[0]) == 0);
}
