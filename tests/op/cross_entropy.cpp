#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

constexpr auto rule = ct::info_of<ct::op::cross_entropy>;
constexpr auto outputs = rule.infer(types({f32(shape(2, 5, 11)), i32(shape(2, 5))}), {}).outputs;
static_assert(outputs.size() == 3 && outputs[0] == f64(shape{}) && outputs[1] == f32(shape(10)));
static_assert(outputs[2] == f64(shape(10)));
static_assert(rule.infer(types({f32(shape(4, 3)), i32(shape(4))}), {}).outputs[0] == f64(shape{}));
static_assert(refuses<ct::op::cross_entropy::labels_do_not_fit_the_logits>(
    rule.infer(types({f32(shape(2, 5, 11)), i32(shape(2))}), {}), 10, 2));
static_assert(refuses<ct::op::cross_entropy::labels_do_not_fit_the_logits>(
    rule.infer(types({f32(shape(4, 3)), f32(shape(4))}), {}), 4, 4));
static_assert(rule.accumulating == 1 && rule.workspace == 0b100);

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5);
  }
};
struct halved {
  static constexpr bool derivative_uses_input = false, derivative_uses_output = false;
  template <class real> CT_HOST_DEVICE static real forward(real x) { return x / 2; }
  template <class real> CT_HOST_DEVICE static real gradient(real, real, real dy) { return dy / 2; }
};
// Losses are values like others: they add up and scale.
struct two_losses {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    auto const flat = ct::cross_entropy(ct::elementwise<halved>(logits), labels);
    return ct::cross_entropy(logits, labels) + ct::elementwise<halved>(flat);
  }
};

// The loss of one call, 1 / valid labels as the trainer gives it.
template <class real> struct computed {
  array<double> loss{shape{}};
  array<real> log_sum_exp;
  array<double> row_loss;
  array<double> inverse_count;

  computed(array<real> const& logits, array<std::int32_t> const& labels, double valid)
      : log_sum_exp(labels.in().shape()), row_loss(labels.in().shape()), inverse_count(shape{}, {1 / valid}) {
    add(logits, labels, 0);
  }
  void add(array<real> const& logits, array<std::int32_t> const& labels, unsigned adds) {
    call_kernel<ct::op::cross_entropy>(adding(adds), logits.in(), labels.in(), inverse_count.in(), loss.out(),
                                       log_sum_exp.out(), row_loss.out());
  }
  void gradient(array<double> const& dloss, array<real> const& logits, array<std::int32_t> const& labels,
                ct::tensor<real> dlogits) const {
    call_kernel<ct::op::cross_entropy_gradient>(plain, dloss.in(), logits.in(), labels.in(), log_sum_exp.in(),
                                                inverse_count.in(), dlogits);
  }
};

} // namespace

TEST_CASE("cross_entropy: gradients") {
  check_gradients<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
  check_gradients<ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>, ct::accumulate<3>>();
}
TEST_CASE("cross_entropy: gradients of a sum of two losses") {
  check_gradients<ct::task<model{}, two_losses, ct::micro_batch{.sequences = 2, .tokens = 4}>>();
  check_gradients<ct::task<model{}, two_losses, ct::micro_batch{.sequences = 2, .tokens = 4}>, ct::accumulate<3>>();
}

TEST_CASE_TEMPLATE("cross_entropy: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  array<real> const x(shape(2, 5, 11), f.reals("cross_entropy.x"));
  array<std::int32_t> const labels(shape(2, 5), f.integers("cross_entropy.labels"));
  array<double> const dloss(shape{}, f.reals("cross_entropy.dy"));
  computed<real> y(x, labels, 7);
  CHECK(relative_error(y.loss.values(), f.reals("cross_entropy.y")) < tolerance<real>);
  array<real> dx(shape(2, 5, 11));
  y.gradient(dloss, x, labels, dx.out());
  CHECK(relative_error(dx.values(), f.reals("cross_entropy.dx")) < tolerance<real>);
  for (std::size_t row : {2, 5, 9}) // ignored
    for (std::size_t i = 0; i < 11; ++i) CHECK(dx[row * 11 + i] == 0);
  // The gradient may overwrite the logits.
  auto over = x;
  y.gradient(dloss, over, labels, over.out());
  CHECK(same_bits(over.values(), dx.values()));
  // The next micro-batch adds its share.
  auto twice = f.reals("cross_entropy.y");
  twice[0] *= 2;
  y.add(x, labels, 1);
  CHECK(relative_error(y.loss.values(), twice) < tolerance<real>);
}

TEST_CASE_TEMPLATE("cross_entropy: large logits do not overflow", real, float, double) {
  array<real> const x(shape(2, 3), {10000, 0, -10000, /**/ -500, -500, -500});
  array<std::int32_t> const labels(shape(2), {1, 2});
  computed<real> y(x, labels, 2);
  CHECK(y.loss[0] == doctest::Approx((10000 + std::log(3.0)) / 2));
  array<real> dx(shape(2, 3));
  y.gradient(array<double>(shape{}, {1.0}), x, labels, dx.out());
  double const expected[] = {0.5, -0.5, 0, 1 / 6.0, 1 / 6.0, -1 / 3.0};
  for (std::size_t i = 0; i < 6; ++i) CHECK(dx[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

TEST_CASE_TEMPLATE("cross_entropy: the logits of an ignored label do not matter", real, float, double) {
  real const nan = std::numeric_limits<real>::quiet_NaN(), infinity = std::numeric_limits<real>::infinity();
  array<real> const x(shape(4, 2), {1, 2, /**/ nan, 0, /**/ infinity, 1, /**/ -infinity, -infinity});
  array<std::int32_t> const labels(shape(4), {1, ct::ignored_label, ct::ignored_label, ct::ignored_label});
  computed<real> y(x, labels, 1);
  CHECK(y.loss[0] == doctest::Approx(std::log(1 + std::exp(-1.0))));
  array<real> dx(shape(4, 2));
  y.gradient(array<double>(shape{}, {1.0}), x, labels, dx.out());
  CHECK(dx[0] == doctest::Approx(1 / (1 + std::exp(1.0))));
  for (std::size_t i = 2; i < 8; ++i) CHECK(dx[i] == 0);
}

TEST_CASE("cross_entropy: a micro-batch whose labels are all ignored has no share") {
  auto const x = array<float>::random(shape(3, 4), 1);
  array<std::int32_t> const labels(shape(3), {ct::ignored_label, ct::ignored_label, ct::ignored_label});
  computed<float> y(x, labels, 5);
  CHECK(y.loss[0] == 0);
  array<float> dx(shape(3, 4));
  y.gradient(array<double>(shape{}, {1.0}), x, labels, dx.out());
  for (auto g : dx.values()) CHECK(g == 0);
}

TEST_CASE_TEMPLATE("cross_entropy: bit-identical on any number of threads", real, float, double) {
  auto const x = array<real>::random(shape(301, 97), 1, 3);
  auto const labels = array<std::int32_t>::integers(shape(301), 2, 97);
  array<double> const one(shape{}, {1.0});
  check_same_on_all_threads([&] { return computed<real>(x, labels, 301).loss.values(); });
  check_same_on_all_threads([&] {
    array<real> dx(shape(301, 97));
    computed<real>(x, labels, 301).gradient(one, x, labels, dx.out());
    return dx.values();
  });
}
