#include "check_gradients.hpp"
#include "fixtures.hpp"
#include "op/call_kernel.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;
using options = ct::cross_entropy_options;

namespace {

constexpr auto rule = ct::info_of<ct::op::regularized_cross_entropy>;
constexpr auto infer(options const& o) { return rule.infer(types({f32(shape(4, 3)), i32(shape(4))}), ct::pack(o)); }
static_assert(infer({.label_smoothing = 0.5, .z_loss = 1}).outputs.size() == 3);
static_assert(refuses<ct::op::cross_entropy::labels_do_not_fit_the_logits>(
    rule.infer(types({f32(shape(2, 5, 11)), i32(shape(2))}), ct::pack(options{})), 10, 2));
constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
using smoothing_refusal = ct::op::regularized_cross_entropy;
static_assert(refuses<smoothing_refusal::label_smoothing_is_out_of_range>(infer({.label_smoothing = 1}), 0, 0));
static_assert(refuses<smoothing_refusal::label_smoothing_is_out_of_range>(infer({.label_smoothing = -0.1}), 0, 0));
static_assert(refuses<smoothing_refusal::label_smoothing_is_out_of_range>(infer({.label_smoothing = nan}), 0, 0));
static_assert(refuses<smoothing_refusal::z_loss_is_out_of_range>(infer({.z_loss = -1}), 0, 0));
static_assert(refuses<smoothing_refusal::z_loss_is_out_of_range>(infer({.z_loss = inf}), 0, 0));
static_assert(refuses<smoothing_refusal::z_loss_is_out_of_range>(infer({.z_loss = nan}), 0, 0));
static_assert(refuses<smoothing_refusal::z_loss_is_out_of_range>(infer({.z_loss = 2e38}), 0, 0)); // twice: inf in fp32
static_assert(infer({.z_loss = 1e20}).outputs.size() == 3);
static_assert(rule.has_in_evaluation && !ct::info_of<ct::op::cross_entropy>.has_in_evaluation);

constexpr options both{.label_smoothing = 0.25, .z_loss = 0.001};
static_assert(ct::is_objective<ct::causal_lm_with<both>> && ct::is_objective<ct::classification_with<both>>);

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 40, .width = 6}), 40);
  }
};
template <class objective, int sequences = 2>
using task = ct::task<model{}, objective, ct::micro_batch{.sequences = sequences, .tokens = 16}>;
template <class objective, class... list>
using trainer = ct::trainer<task<objective, 8>, ct::precision::fp64, ct::optimizer::sgd, list...>;

template <class real> struct computed {
  array<double> loss{shape{}}, inverse_count, row_loss;
  array<real> log_sum_exp, dlogits;

  computed(array<real> const& logits, array<std::int32_t> const& labels, options const& o, double dloss)
      : inverse_count(shape{}, {1.0 / 7}), row_loss(shape(2, 5)), log_sum_exp(shape(2, 5)), dlogits(shape(2, 5, 11)) {
    auto const packed = ct::pack(o);
    call_kernel<ct::op::regularized_cross_entropy>(ct::call{packed, no_parameters}, logits.in(), labels.in(),
                                                   inverse_count.in(), loss.out(), log_sum_exp.out(), row_loss.out());
    array<double> const upstream(shape{}, {dloss});
    call_kernel<ct::op::regularized_cross_entropy_gradient>(ct::call{packed, no_parameters}, upstream.in(), logits.in(),
                                                            labels.in(), log_sum_exp.in(), inverse_count.in(),
                                                            dlogits.out());
  }
};

} // namespace

TEST_CASE("regularized_cross_entropy: gradients") {
  check_gradients<task<ct::causal_lm_with<both>>>();
  check_gradients<task<ct::causal_lm_with<options{.z_loss = 0.1}>>, ct::accumulate<3>>();
}

TEST_CASE_TEMPLATE("regularized_cross_entropy: as PyTorch", real, float, double) {
  fixture const f("ops.safetensors");
  auto const check = [&](std::string const& name, options const& o) {
    CAPTURE(name);
    array<real> const x(shape(2, 5, 11), f.reals(name + ".x"));
    array<std::int32_t> const labels(shape(2, 5), f.integers(name + ".labels"));
    computed<real> const y(x, labels, o, f.reals(name + ".dy")[0]);
    CHECK(relative_error(y.loss.values(), f.reals(name + ".y")) < tolerance<real>);
    CHECK(relative_error(y.dlogits.values(), f.reals(name + ".dx")) < tolerance<real>);
    for (std::size_t i = 0; i < 11; ++i) CHECK(y.dlogits[2 * 11 + i] == 0); // ignored
    auto spoiled = x;
    spoiled[2 * 11] = std::numeric_limits<real>::infinity();
    computed<real> const z(spoiled, labels, o, f.reals(name + ".dy")[0]);
    CHECK(same_bits(z.loss.values(), y.loss.values()));
    CHECK(same_bits(z.dlogits.values(), y.dlogits.values()));
  };
  check("cross_entropy_smoothed", {.label_smoothing = 0.1});
  check("cross_entropy_z_loss", {.z_loss = 0.01});
  check("cross_entropy_both", both);
}

TEST_CASE("regularized_cross_entropy: a class with a logit of -infinity adds nothing without smoothing") {
  double const x[] = {0.5, -0.25, -std::numeric_limits<double>::infinity()};
  double const log_sum = std::log(std::exp(x[0]) + std::exp(x[1]));
  ct::regularized_loss<double> const masked({.z_loss = 0.5}, 3, 1), without({.z_loss = 0.5}, 2, 1);
  CHECK(masked.loss_of_row(x, 1, log_sum) == without.loss_of_row(x, 1, log_sum));
  CHECK(masked.loss_of_row(x, 1, log_sum) == doctest::Approx(log_sum - x[1] + 0.5 * log_sum * log_sum));
}

TEST_CASE("regularized_cross_entropy: evaluate computes the plain cross-entropy") {
  using regularized = trainer<ct::causal_lm_with<both>>;
  using plain = trainer<ct::causal_lm>;
  regularized t({.learning_rate = 0.1f}, {.seed = 1});
  plain p({.learning_rate = 0.1f}, {.seed = 1});
  auto const batch = random_batch::draw<plain>(1);
  CHECK(t.evaluate(batch.inputs, batch.labels).loss == p.evaluate(batch.inputs, batch.labels).loss);
  CHECK(t.step(t.batch(batch.inputs, batch.labels)).loss > p.step(p.batch(batch.inputs, batch.labels)).loss);
  CHECK(t.evaluate(batch.inputs, batch.labels).loss != p.evaluate(batch.inputs, batch.labels).loss);
  // Without options it is the plain op.
  CHECK(trainer<ct::causal_lm_with<options{}>>::kernel_launches == plain::kernel_launches);
}

TEST_CASE("regularized_cross_entropy: in chunks of rows, too") {
  using whole = trainer<ct::causal_lm_with<both>>;
  using in_chunks = trainer<ct::causal_lm_with<both>, ct::fusion::all>;
  CHECK(2 * in_chunks::memory.activations.count() < whole::memory.activations.count());
  whole a({.learning_rate = 0.1f}, {.seed = 1});
  in_chunks b({.learning_rate = 0.1f}, {.seed = 1});
  auto batch = random_batch::draw<whole>(1);
  batch.labels[3] = batch.labels[77] = ct::ignored_label;
  for (int step = 0; step < 3; ++step) {
    auto const x = a.step(a.batch(batch.inputs, batch.labels)), y = b.step(b.batch(batch.inputs, batch.labels));
    CHECK(y.loss == doctest::Approx(x.loss).epsilon(1e-13));
    CHECK(y.gradient_norm == doctest::Approx(x.gradient_norm).epsilon(1e-13));
  }
}
