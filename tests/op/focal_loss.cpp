#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using options = ct::focal_loss_options;
constexpr auto rule = ct::info_of<ct::op::focal_loss>;
constexpr auto infer(ct::operand_types const& in, double gamma = 2) {
  return rule.infer(in, ct::pack(options{.gamma = gamma}));
}
constexpr auto outputs = infer(types({f32(shape(2, 5, 11)), i32(shape(2, 5))})).outputs;
static_assert(outputs.size() == 3 && outputs[0] == f64(shape{}) && outputs[1] == f32(shape(10)));
static_assert(outputs[2] == f64(shape(10)));
static_assert(infer(types({f32(shape(4, 3)), i32(shape(4))}), 0).outputs.size() == 3);
static_assert(refuses<ct::op::focal_loss::labels_do_not_fit_the_logits>(
    infer(types({f32(shape(2, 5, 11)), i32(shape(2))})), 10, 2));
constexpr auto of_gamma(double gamma) { return infer(types({f32(shape(4, 3)), i32(shape(4))}), gamma); }
static_assert(refuses<ct::op::focal_loss::gamma_is_out_of_range>(of_gamma(-1), 0, 0));
static_assert(refuses<ct::op::focal_loss::gamma_is_out_of_range>(of_gamma(std::numeric_limits<double>::infinity()), 0,
                                                                 0));
static_assert(refuses<ct::op::integers_instead_of_floats>(infer(types({i32(shape(4, 3)), i32(shape(4))})), 0, 0));
static_assert(rule.accumulating == 1 && rule.workspace == 0b100);
static_assert(ct::is_objective<ct::focal_classification<>> &&
              ct::is_objective<ct::focal_classification<options{.gamma = 0.5}>>);

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5);
  }
};
template <int halves>
using task = ct::task<model{}, ct::focal_classification<options{.gamma = halves / 2.0}>,
                      ct::micro_batch{.sequences = 2, .tokens = 4}>;

/// Equation 4 of the paper, with p of a softmax, and its gradient with respect to the logits, both in long double.
struct definition {
  double loss = 0;
  std::vector<double> dlogits;

  template <class real>
  definition(array<real> const& x, array<std::int32_t> const& labels, std::size_t classes, double gamma, double valid)
      : dlogits(x.values().size()) {
    long double sum = 0;
    for (std::size_t row = 0; row < labels.values().size(); ++row) {
      if (labels[row] == ct::ignored_label) continue;
      auto const label = static_cast<std::size_t>(labels[row]);
      long double exponentials = 0;
      for (std::size_t i = 0; i < classes; ++i)
        exponentials += std::exp(static_cast<long double>(x[row * classes + i]));
      auto const q = [&](std::size_t i) {
        return std::exp(static_cast<long double>(x[row * classes + i])) / exponentials;
      };
      long double const p = q(label), g = static_cast<long double>(gamma);
      sum += -std::pow(1 - p, g) * std::log(p);
      long double const by_p = g * std::pow(1 - p, g - 1) * std::log(p) - std::pow(1 - p, g) / p;
      for (std::size_t i = 0; i < classes; ++i)
        dlogits[row * classes + i] =
            static_cast<double>(by_p * p * ((i == label ? 1 : 0) - q(i)) / static_cast<long double>(valid));
    }
    loss = static_cast<double>(sum / static_cast<long double>(valid));
  }
};

template <class real> struct computed {
  array<double> loss{shape{}};
  array<ct::arithmetic<real>> log_sum_exp;
  array<double> row_loss;
  array<double> inverse_count;
  ct::attributes packed;

  computed(array<real> const& logits, array<std::int32_t> const& labels, double gamma, double valid)
      : log_sum_exp(labels.in().shape()), row_loss(labels.in().shape()), inverse_count(shape{}, {1 / valid}),
        packed(ct::pack(options{.gamma = gamma})) {
    add(logits, labels, 0);
  }
  void add(array<real> const& logits, array<std::int32_t> const& labels, unsigned adds) {
    ct::call c{packed, no_parameters};
    c.adds = adds;
    call_kernel<ct::op::focal_loss>(c, logits.in(), labels.in(), inverse_count.in(), loss.out(), log_sum_exp.out(),
                                    row_loss.out());
  }
  void gradient(array<real> const& logits, array<std::int32_t> const& labels, ct::tensor<real> dlogits) const {
    array<double> const one(shape{}, {1.0});
    call_kernel<ct::op::focal_loss_gradient>(ct::call{packed, no_parameters}, one.in(), logits.in(), labels.in(),
                                             log_sum_exp.in(), inverse_count.in(), dlogits);
  }
};

array<std::int32_t> some_labels(shape s, int classes) {
  auto labels = array<std::int32_t>::integers(s, 2, classes);
  labels[1] = labels[4] = ct::ignored_label;
  return labels;
}

} // namespace

TEST_CASE("focal_loss: gradients") {
  check_gradients<task<4>>();
  check_gradients<task<1>, ct::accumulate<3>>();
}

TEST_CASE_TEMPLATE("focal_loss: as the paper defines it", real, float, double) {
  shape const s(2, 5, 11);
  auto const x = array<real>::random(s, 1, 3);
  auto const labels = some_labels(shape(2, 5), 11);
  double const within = std::is_same_v<real, double> ? 1e-12 : 1e-5;
  for (double gamma : {0.5, 1.0, 2.0, 5.0}) {
    CAPTURE(gamma);
    definition const expected(x, labels, 11, gamma, 8);
    computed<real> y(x, labels, gamma, 8);
    CHECK(y.loss[0] == doctest::Approx(expected.loss).epsilon(within));
    array<real> dx(s);
    y.gradient(x, labels, dx.out());
    CHECK(relative_error(dx.values(), expected.dlogits) < within);
    for (std::size_t row : {1, 4}) // ignored
      for (std::size_t i = 0; i < 11; ++i) CHECK(dx[row * 11 + i] == 0);
    auto spoiled = x; // the logits of an ignored label do not matter
    spoiled[11] = std::numeric_limits<real>::quiet_NaN();
    y.gradient(spoiled, labels, dx.out());
    for (std::size_t i = 0; i < 11; ++i) CHECK(dx[11 + i] == 0);
    y.gradient(x, labels, dx.out());
    auto over = x; // the gradient may overwrite the logits
    y.gradient(over, labels, over.out());
    CHECK(same_bits(over.values(), dx.values()));
    y.add(x, labels, 1); // the next micro-batch adds its share
    CHECK(y.loss[0] == doctest::Approx(2 * expected.loss).epsilon(within));
  }
}

TEST_CASE_TEMPLATE("focal_loss: with gamma 0 it has the bits of cross_entropy", real, float, double) {
  auto const x = array<real>::random(shape(2, 5, 11), 1, 3);
  auto const labels = some_labels(shape(2, 5), 11);
  computed<real> y(x, labels, 0, 8);
  array<double> loss{shape{}}, row_loss(shape(2, 5));
  array<real> sums(shape(2, 5)), dx(shape(2, 5, 11)), expected(shape(2, 5, 11));
  call_kernel<ct::op::cross_entropy>(plain, x.in(), labels.in(), y.inverse_count.in(), loss.out(), sums.out(),
                                     row_loss.out());
  call_kernel<ct::op::cross_entropy_gradient>(plain, array<double>(shape{}, {1.0}).in(), x.in(), labels.in(), sums.in(),
                                              y.inverse_count.in(), expected.out());
  y.gradient(x, labels, dx.out());
  CHECK(y.loss[0] == loss[0]);
  CHECK(same_bits(dx.values(), expected.values()));
}

TEST_CASE_TEMPLATE("focal_loss: certain rows are finite", real, ct::float16, ct::bfloat16, float, double) {
  array<real> const x(shape(2, 2), std::vector<double>{10000, -10000, -10000, 10000}); // right, and wrong
  array<std::int32_t> const labels(shape(2), {0, 0});
  for (double gamma : {0.5, 1.0, 2.0}) {
    computed<real> y(x, labels, gamma, 1);
    CHECK(y.loss[0] == doctest::Approx(20000).epsilon(1e-2));
    array<real> dx(shape(2, 2));
    y.gradient(x, labels, dx.out());
    CHECK(double(dx[0]) == 0);
    CHECK(double(dx[2]) == -1);
    CHECK(double(dx[3]) == 1);
  }
}

TEST_CASE("focal_loss: NaN in the logits is NaN in loss and gradient") {
  array<float> const x(shape(1, 2), {std::nanf(""), 1});
  array<std::int32_t> const labels(shape(1), {1});
  computed<float> y(x, labels, 2, 1);
  CHECK(std::isnan(y.loss[0]));
  array<float> dx(shape(1, 2));
  y.gradient(x, labels, dx.out());
  CHECK(std::isnan(dx[1]));
}

TEST_CASE_TEMPLATE("focal_loss: bit-identical on any number of threads", real, float, double) {
  auto const x = array<real>::random(shape(301, 97), 1, 3);
  auto const labels = some_labels(shape(301), 97);
  check_same_on_all_threads([&] { return computed<real>(x, labels, 2, 299).loss.values(); });
  check_same_on_all_threads([&] {
    array<real> dx(shape(301, 97));
    computed<real>(x, labels, 2, 299).gradient(x, labels, dx.out());
    return dx.values();
  });
}

TEST_CASE("focal_loss: a model learns from it, and its evaluation ignores labels") {
  ct::trainer<task<4>, ct::precision::bf16> t{{.learning_rate = 0.05f}};
  std::vector<std::int32_t> const inputs{0, 1, 2, 3, 4, 5, 6, 0}, labels{0, 1, 2, ct::ignored_label, 4, 0, 1, 0};
  auto const first = t.step(t.batch(inputs, labels)).loss;
  for (int i = 0; i < 30; ++i) t.step(t.batch(inputs, labels));
  auto const found = t.evaluate(inputs, labels);
  CHECK(found.loss < 0.1 * first);
  CHECK(found.accuracy == 1);
  CHECK(found.tokens == 7);
}
