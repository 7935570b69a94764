#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using muon = ct::optimizer::muon<ct::optimizer::sgd>;
using op_of_muon = ct::op::muon<muon>;

static_assert(ct::info_of<op_of_muon>.gradient == nullptr && !ct::info_of<op_of_muon>.guarded);
constexpr auto wide =
    types({f32(shape(4, 7)), f64(shape(2)), {ct::dtype::u8, shape(9)}, f32(shape(4, 7)), f32(shape(4, 7))});
constexpr auto tall =
    types({f64(shape(7, 4)), f64(shape(2)), {ct::dtype::u8, shape(9)}, f64(shape(7, 4)), f64(shape(7, 4))});
constexpr auto of_wide = ct::info_of<op_of_muon>.infer(wide, {}).outputs,
               of_tall = ct::info_of<op_of_muon>.infer(tall, {}).outputs;
static_assert(of_wide.size() == 5 && of_wide[0] == f32(shape(4, 7)) && of_wide[1] == of_wide[0] &&
              of_wide[2] == of_wide[0] && of_wide[3] == f32(shape(4, 4)) && of_wide[4] == of_wide[3]);
static_assert(of_tall.size() == 5 && of_tall[1] == f64(shape(7, 4)) && of_tall[4] == f64(shape(4, 4)));
static_assert(ct::info_of<op_of_muon>.workspace == 0b11100);
// Per Newton-Schulz step: two GEMMs of 4 x 7 x 4 and one of 4 x 4 x 4.
static_assert(ct::info_of<op_of_muon>.cost_of(wide, types({}), {}).flops == 5 * (2 * 2 * 4 * 7 * 4 + 2 * 4 * 4 * 4));

/// A matrix and its momentum, updated by the kernel.
template <class real, class optimizer = muon> struct trained {
  array<real> weight, momentum;
  typename optimizer::hyper hyper{.learning_rate = 0.02f};
  bool decays = true;

  explicit trained(shape s, std::vector<double> const& start)
      : weight(s, start), momentum(s, std::vector<double>(start.size())) {}
  void step(array<real> const& gradient, double scale = 1) {
    ct::op::step_hyperparameters<optimizer, real> const prepared(hyper, {1});
    array<std::uint8_t> numbers(shape(static_cast<std::int64_t>(sizeof prepared)));
    std::memcpy(numbers.out().data, &prepared, sizeof prepared);
    array<double> const norm_and_scale(shape(2), {1.0, scale});
    auto const s = weight.in().shape();
    auto const side = std::min(s.extent[0], s.extent[1]);
    array<real> new_weight(s), new_momentum(s), scratch(s), gram(shape(side, side)), polynomial(shape(side, side));
    auto const options = ct::pack(typename ct::op::muon<optimizer>::options{.decays = decays});
    call_kernel<ct::op::muon<optimizer>>(ct::call{options, no_parameters}, gradient.in(), norm_and_scale.in(),
                                         numbers.in(), weight.in(), momentum.in(), new_weight.out(), new_momentum.out(),
                                         scratch.out(), gram.out(), polynomial.out());
    weight = new_weight, momentum = new_momentum;
  }
};

constexpr int steps = 10;

/// The largest difference from a case of the fixture, relative to the largest element.
template <class real, class optimizer>
double difference(std::string const& name, std::string const& matrix, typename optimizer::hyper const& hyper) {
  fixture const f("muon.safetensors");
  auto const start = f.reals(matrix + ".parameter"), all = f.reals(matrix + ".gradients");
  auto const expected = f.reals(matrix + "." + name);
  auto const size = static_cast<std::ptrdiff_t>(start.size());
  auto const s = f.shape(matrix + ".parameter");
  trained<real, optimizer> t(shape(s[0], s[1]), start);
  t.hyper = hyper;
  double worst = 0;
  for (std::ptrdiff_t step = 0; step < steps; ++step) {
    t.step({shape(s[0], s[1]), std::vector<double>(all.begin() + size * step, all.begin() + size * (step + 1))});
    double most = 0, apart = 0;
    for (std::ptrdiff_t i = 0; i < size; ++i) {
      double const now = expected[static_cast<std::size_t>(size * step + i)];
      most = std::max(most, std::abs(now));
      apart = std::max(apart, std::abs(static_cast<double>(t.weight[static_cast<std::size_t>(i)]) - now));
    }
    worst = std::max(worst, apart / most);
  }
  return worst;
}

template <class real, class optimizer = muon>
double worst_difference(std::string const& name, typename optimizer::hyper const& hyper) {
  double worst = 0;
  for (auto const* matrix : {"wide", "tall", "square"})
    worst = std::max(worst, difference<real, optimizer>(name, matrix, hyper));
  return worst;
}

} // namespace

TEST_CASE_TEMPLATE("muon: ten steps as PyTorch without its cast to bfloat16", real, float, double) {
  double const within = std::is_same_v<real, double> ? 1e-10 : 1e-5; // seen: 2.8e-16 and 3.0e-7
  auto const check = [&](char const* name, typename muon::hyper const& hyper) {
    CAPTURE(name);
    CHECK(worst_difference<real>(name, hyper) < within);
  };
  float const rate = 0.02f;
  check("default", {.learning_rate = rate});
  check("decay", {.learning_rate = rate, .weight_decay = 0.1f});
  check("plain", {.learning_rate = rate, .nesterov = false});
  check("match_rms_adamw", {.learning_rate = rate, .rate = ct::optimizer::muon_rate::match_rms_adamw});
  check("spectral_unclamped", {.learning_rate = rate, .rate = ct::optimizer::muon_rate::spectral_unclamped});
  using eight_steps = ct::optimizer::muon<ct::optimizer::sgd, 8>;
  typename eight_steps::hyper const cubic{
      .learning_rate = rate, .momentum = 0.5f, .epsilon = 1e-3f, .a = 1.5f, .b = -0.5f, .c = 0};
  double const off = worst_difference<real, eight_steps>("cubic", cubic);
  CHECK(off < within);
}

TEST_CASE("muon: ten steps as PyTorch, within the rounding of its bfloat16") {
  auto const worst = worst_difference<double>("in_bf16", {.learning_rate = 0.02f});
  CHECK(worst < 2e-3); // seen: 8.0e-4
  CHECK(worst > 1e-5); // the cast is in this case
}

TEST_CASE("muon: clipping scales the gradient; a parameter that does not decay keeps its length") {
  trained<double> a(shape(2, 3), {1, 2, 3, 4, 5, 6}), b(shape(2, 3), {1, 2, 3, 4, 5, 6});
  a.hyper.weight_decay = b.hyper.weight_decay = 1;
  a.step({shape(2, 3), {4, -8, 0, 2, 2, 16}}, 0.25);
  b.step({shape(2, 3), {1, -2, 0, 0.5, 0.5, 4}});
  CHECK(a.weight.values() == b.weight.values());
  CHECK(a.momentum.values() == b.momentum.values());
  trained<double> still(shape(2, 3), {1, 2, 3, 4, 5, 6});
  still.hyper.weight_decay = 1;
  still.decays = false;
  still.step({shape(2, 3), {0, 0, 0, 0, 0, 0}});
  CHECK(still.weight.values() == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("muon: an update has singular values near 1") {
  // For orthogonal rows, the iteration changes only the length of each row.
  trained<double> t(shape(2, 4), std::vector<double>(8));
  t.hyper.learning_rate = 1;
  t.step({shape(2, 4), {3, 0, 0, 0, 0, 0, 0.5, 0}});
  CHECK(std::abs(t.weight[0]) == doctest::Approx(1).epsilon(0.35));
  CHECK(std::abs(t.weight[6]) == doctest::Approx(1).epsilon(0.35));
  for (std::size_t i : {1u, 2u, 3u, 4u, 5u, 7u}) CHECK(t.weight[i] == 0);
}

TEST_CASE("muon: bit-identical on any number of threads with the built-in GEMM") {
  if (std::string(ct::gemm_provider()) != "built-in") return;
  auto const start = array<double>::random(shape(300, 200), 1).values();
  auto const gradient = array<float>::random(shape(300, 200), 2);
  check_same_on_all_threads([&] {
    trained<float> t(shape(300, 200), start);
    for (int i = 0; i < 2; ++i) t.step(gradient);
    return t.weight.values();
  });
}
