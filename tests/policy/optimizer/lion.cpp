#include "op/call_kernel.hpp"
#include "policy/small_gpt.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using lion = ct::optimizer::lion;
template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;

static_assert(ct::is_optimizer<lion> && ct::is_optimizer<ct::optimizer::quantized<lion>>);
static_assert(ct::op::state_fields<lion>() == 1 && ct::op::state_name<lion>(0) == "exp_avg");
static_assert(trainer<lion>::memory.optimizer_state == trainer<lion>::memory.weights);

/// One parameter, as algorithm 2 of the paper has it; `rate` and the other numbers under the paper's names.
struct algorithm_2 {
  std::vector<double> theta, m;
  double rate, beta1, beta2, lambda;

  void step(std::vector<double> const& g) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      double const c = beta1 * m[i] + (1 - beta1) * g[i];
      theta[i] = theta[i] - rate * ((c > 0 ? 1.0 : c < 0 ? -1.0 : 0.0) + lambda * theta[i]);
      m[i] = beta2 * m[i] + (1 - beta2) * g[i];
    }
  }
};

} // namespace

TEST_CASE("lion: as the paper's algorithm 2, 10 steps in fp64") {
  lion::hyper const h{.learning_rate = 0.01f, .beta1 = 0.8f, .beta2 = 0.95f, .weight_decay = 0.5f};
  trainer<lion, ct::precision::fp64> t(h);
  std::vector<algorithm_2> expected;
  for (auto const& p : t.parameters()) {
    auto const start = values(p);
    expected.push_back({start, std::vector<double>(start.size()), h.learning_rate, h.beta1, h.beta2,
                        ct::decays(p.role) ? h.weight_decay : 0.0});
  }
  for (int i = 0; i < 10; ++i) {
    step(t, i);
    double apart = 0;
    for (std::size_t p = 0; p < expected.size(); ++p) {
      auto const parameter = t.parameters().at(p);
      auto& e = expected[p];
      e.step(values(t.gradient(parameter.name)));
      auto const weight = values(parameter), m = values(t.state(parameter.name, "exp_avg"));
      for (std::size_t k = 0; k < weight.size(); ++k)
        apart = std::max({apart, std::abs(weight[k] - e.theta[k]), std::abs(m[k] - e.m[k])});
    }
    CAPTURE(i);
    CHECK(apart <= 1e-12);
  }
}

TEST_CASE_TEMPLATE("lion: the sign of 0 is 0, and a skipped step changes nothing", real, float, double) {
  lion::state<real> s{0};
  lion::hyper const h{.learning_rate = 0.125f, .beta1 = 0.5f, .beta2 = 0.75f, .weight_decay = 0.5f};
  CHECK(lion::update<real>(1, 0, s, h, {1}) == real(0.9375));
  CHECK(s.exp_avg == 0);
  CHECK(lion::update<real>(1, -2, s, h, {2}) == real(1.0625));
  CHECK(s.exp_avg == real(-0.5));

  ct::op::step_hyperparameters<lion, real> const prepared(h, {1});
  array<std::uint8_t> bytes(ct::shape(static_cast<std::int64_t>(sizeof prepared)));
  std::memcpy(bytes.out().data, &prepared, sizeof prepared);
  array<real> const gradient(ct::shape(2), {1, std::numeric_limits<real>::infinity()});
  array<real> weight(ct::shape(2), {1, 2}), m(ct::shape(2), {3, 4});
  array<double> const norm_and_scale(ct::shape(2), {1.0, 0.0});
  auto const options = ct::pack(ct::op::update_options{.decays = true});
  call_kernel<ct::op::update<lion>>(ct::call{options, no_parameters}, gradient.in(), norm_and_scale.in(), bytes.in(),
                                    weight.out(), m.out());
  CHECK(weight.values() == std::vector<real>{1, 2});
  CHECK(m.values() == std::vector<real>{3, 4});
}

TEST_CASE("lion: a resumed run is the uninterrupted run, with states in 8 bits too") {
  auto const check = [&]<class trainer>(std::type_identity<trainer>) {
    temporary_directory const directory;
    trainer whole({.learning_rate = 0.01f}), first({.learning_rate = 0.01f}), second({.learning_rate = 0.01f});
    for (int i = 0; i < 3; ++i) step(whole, i), step(first, i);
    first.save(directory / "run");
    second.load(directory / "run");
    for (int i = 3; i < 6; ++i) CHECK(step(whole, i).loss == step(second, i).loss);
  };
  check(std::type_identity<trainer<lion>>{});
  check(std::type_identity<trainer<ct::optimizer::quantized<lion>, ct::precision::bf16>>{});
}

TEST_CASE("lion: a hyperparameter outside its range is refused") {
  auto const refused = [](lion::hyper const& h) { return sentence([&] { trainer<lion> t(h); }); };
  CHECK(refused({.beta1 = 1}).starts_with("lion: .beta1 is "));
  CHECK(refused({.beta2 = -1}).starts_with("lion: .beta2 is "));
  CHECK(refused({.weight_decay = -1}).starts_with("lion: .weight_decay is "));
  CHECK(refused({.learning_rate = -1}).starts_with("lion: .learning_rate is "));
}
