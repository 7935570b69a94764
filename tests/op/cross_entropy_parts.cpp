#include "check_gradients.hpp"
#include "op/call_kernel.hpp"
#include "op/tensor_group.hpp"

#include <constrain/op/accuracy/cpu.hpp>

#include <cmath>
#include <limits>
#include <mutex>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::cross_entropy_parts;
using gradient_rule = ct::op::cross_entropy_parts_gradient;
constexpr auto outputs =
    rule::infer(types({f32(shape(2, 5, 4)), i32(shape(2, 5))}), {.classes = 11, .ranks = 3}).outputs;
static_assert(outputs.size() == 4 && outputs[0] == f64(shape{}) && outputs[1] == f32(shape(10)));
static_assert(outputs[2] == f64(shape(10)) && outputs[3] == f32(shape(3, 10, 3)));
static_assert(ct::info_of<rule>.accumulating == 1 && ct::info_of<rule>.workspace == 0b1100);

constexpr int ranks = 3, columns = 4, classes = 11; // the last rank has three classes

/// Compares loss and gradient with those of one rank.
template <class real> void as_on_one_rank(array<real> const& logits, array<std::int32_t> const& labels) {
  auto const rows = labels.in().count;
  array<double> const inverse_count(shape{}, {0.25}), dloss(shape{}, {3.0});
  array<double> loss(shape{}), row_loss{shape(rows)};
  array<real> log_sum_exp{shape(rows)}, dlogits(shape(rows, classes));
  call_kernel<ct::op::cross_entropy>(plain, logits.in(), labels.in(), inverse_count.in(), loss.out(), log_sum_exp.out(),
                                     row_loss.out());
  call_kernel<ct::op::cross_entropy_gradient>(plain, dloss.in(), logits.in(), labels.in(), log_sum_exp.in(),
                                              inverse_count.in(), dlogits.out());
  auto const options = ct::pack(rule::options{.classes = classes, .ranks = ranks});
  std::mutex together;
  tensor_group::run(ranks, [&](ct::step_parameters const& parameters) {
    ct::call c{options, parameters};
    int const rank = parameters.tensor->rank();
    array<real> mine(shape(rows, columns), columns_of(logits.values(), rows, rank, columns));
    array<double> own_loss(shape{}), own_row_loss{shape(rows)};
    array<real> own_log_sum_exp{shape(rows)}, buffer(shape(ranks, rows, 3));
    auto const run = [&] {
      call_kernel<rule>(c, mine.in(), labels.in(), inverse_count.in(), own_loss.out(), own_log_sum_exp.out(),
                        own_row_loss.out(), buffer.out());
    };
    run();
    double const first = own_loss[0];
    c.adds = 1; // the next micro-batch adds its share
    run();
    call_kernel<gradient_rule>(c, dloss.in(), mine.in(), labels.in(), own_log_sum_exp.in(), inverse_count.in(),
                               mine.out()); // over the logits
    auto const expected = columns_of(dlogits.values(), rows, rank, columns);
    std::lock_guard const lock(together);
    CHECK(first == doctest::Approx(loss[0]).epsilon(tolerance<real>));
    CHECK(own_loss[0] == 2 * first);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(mine[i] - expected[i]) <= tolerance<real>);
    }
  });
}

// One rank with all classes; several are tested below.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5);
  }
};
struct loss_of_parts {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    auto const loss =
        ct::emit<rule>({ct::tanh(logits), labels, ct::inverse_label_count(labels)}, {.classes = 5, .ranks = 1});
    return loss + ct::emit<rule>({logits, labels, ct::inverse_label_count(labels)}, {.classes = 5, .ranks = 1});
  }
};
using task = ct::task<model{}, loss_of_parts, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("cross_entropy_parts: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<3>>();
}

TEST_CASE_TEMPLATE("cross_entropy_parts: loss and gradient as on one rank", real, float, double) {
  auto labels = array<std::int32_t>::integers(shape(23), 2, classes);
  labels[3] = labels[11] = ct::ignored_label;
  labels[5] = 3, labels[6] = 4, labels[7] = classes - 1; // at the ends of ranges
  as_on_one_rank(array<real>::random(shape(23, classes), 1, 3), labels);
}

TEST_CASE_TEMPLATE("cross_entropy_parts: large logits, and a rank without a possible class", real, float, double) {
  auto logits = array<real>::random(shape(3, classes), 1);
  for (std::size_t i = 0; i < columns; ++i) logits[i] = -std::numeric_limits<real>::infinity();
  logits[classes] = 10000, logits[classes + 9] = -10000;
  as_on_one_rank(logits, array<std::int32_t>(shape(3), {9, 0, 2}));
}

TEST_CASE_TEMPLATE("cross_entropy_parts: a NaN among impossible classes is not lost", real, float, double) {
  auto logits = array<real>::random(shape(1, classes), 1);
  for (std::size_t i = 0; i < columns; ++i) logits[i] = -std::numeric_limits<real>::infinity();
  logits[2] = std::numeric_limits<real>::quiet_NaN();
  array<std::int32_t> const labels(shape(1), {9});
  array<double> const inverse_count(shape{}, {1.0});
  auto const options = ct::pack(rule::options{.classes = classes, .ranks = ranks});
  std::mutex together;
  tensor_group::run(ranks, [&](ct::step_parameters const& parameters) {
    array<real> const mine(shape(1, columns), columns_of(logits.values(), 1, parameters.tensor->rank(), columns));
    array<double> loss(shape{}), row_loss{shape(1)};
    array<real> log_sum_exp{shape(1)}, buffer(shape(ranks, 1, 3));
    ct::call const c{options, parameters};
    call_kernel<rule>(c, mine.in(), labels.in(), inverse_count.in(), loss.out(), log_sum_exp.out(), row_loss.out(),
                      buffer.out());
    std::lock_guard const lock(together);
    CHECK(std::isnan(loss[0]));
  });
}

TEST_CASE("correct_predictions_parts: the first of equals counts, an ignored label does not") {
  array<float> logits(shape(6, classes), std::vector<float>(6 * classes, -1));
  auto const at = [&](std::size_t row, std::size_t column) -> float& { return logits[row * classes + column]; };
  at(0, 10) = 2, at(1, 2) = at(1, 5) = 2, at(2, 2) = at(2, 5) = 2, at(3, 0) = 9, at(4, 4) = 1;
  array<std::int32_t> const labels(shape(6), {10, 2, 5, ct::ignored_label, 4, 0}); // the last row: all are equal
  auto const options = ct::pack(ct::op::class_range_options{.classes = classes, .ranks = ranks});
  std::mutex together;
  tensor_group::run(ranks, [&](ct::step_parameters const& parameters) {
    array<float> const mine(shape(6, columns), columns_of(logits.values(), 6, parameters.tensor->rank(), columns));
    array<double> correct(shape{}, {40.0}), buffer(shape(ranks, 6, 2));
    ct::call c{options, parameters};
    c.adds = 1;
    call_kernel<ct::op::correct_predictions_parts>(c, mine.in(), labels.in(), correct.out(), buffer.out());
    std::lock_guard const lock(together);
    CHECK(correct[0] == 44);
  });
}

TEST_CASE("correct_predictions_parts: NaN is never the argmax") {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values(3 * classes, nan);
  values[10] = -2;                                                       // row 0: a number on the last rank only
  values[classes] = values[classes + 10] = -9, values[classes + 1] = -1; // row 1: numbers among NaN
  array<float> const logits(shape(3, classes), values);
  array<std::int32_t> const labels(shape(3), {10, 1, 0}); // row 2: NaN only
  auto const options = ct::pack(ct::op::class_range_options{.classes = classes, .ranks = ranks});
  std::mutex together;
  tensor_group::run(ranks, [&](ct::step_parameters const& parameters) {
    array<float> const mine(shape(3, columns), columns_of(logits.values(), 3, parameters.tensor->rank(), columns));
    array<double> correct(shape{}), buffer(shape(ranks, 3, 2));
    ct::call const c{options, parameters};
    call_kernel<ct::op::correct_predictions_parts>(c, mine.in(), labels.in(), correct.out(), buffer.out());
    std::lock_guard const lock(together);
    CHECK(correct[0] == 2);
  });
}
