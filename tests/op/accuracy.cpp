#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <algorithm>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

// Only evaluation counts correct predictions.
static_assert(ct::info_of<ct::op::correct_predictions>.gradient == nullptr);
static_assert(
    ct::info_of<ct::op::correct_predictions>.infer(types({f32(shape(2, 3, 5)), i32(shape(2, 3))}), {}).outputs[0] ==
    f64(shape{}));

namespace {

struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 7, .width = 6}), 5);
  }
};

} // namespace

TEST_CASE_TEMPLATE("accuracy: the first of equals counts, an ignored label does not", real, float, double) {
  array<real> const logits(shape(5, 3), {1, 3, 2, /**/ 2, 2, 1, /**/ 2, 2, 1, /**/ 0, 0, 9, /**/ -3, -2, -1});
  array<std::int32_t> const labels(shape(5), {1, 0, 1, ct::ignored_label, 2});
  array<double> correct(shape{});
  call_kernel<ct::op::correct_predictions>(plain, logits.in(), labels.in(), correct.out());
  CHECK(correct[0] == 3);
}

TEST_CASE_TEMPLATE("accuracy: NaN is never the argmax", real, float, double) {
  auto const nan = std::numeric_limits<real>::quiet_NaN();
  array<real> const logits(shape(5, 3),
                           {nan, 3, 2, /**/ nan, 3, 2, /**/ nan, nan, nan, /**/ 1, nan, 2, /**/ 3, 2, nan});
  array<std::int32_t> const labels(shape(5), {0, 1, 0, 2, 0});
  array<double> correct(shape{});
  call_kernel<ct::op::correct_predictions>(plain, logits.in(), labels.in(), correct.out());
  CHECK(correct[0] == 3);
}

TEST_CASE("accuracy: the same on every number of threads") {
  auto const logits = array<float>::random(shape(701, 5), 1);
  auto const labels = array<std::int32_t>::integers(shape(701), 2, 5);
  check_same_on_all_threads([&] {
    array<double> correct(shape{});
    call_kernel<ct::op::correct_predictions>(plain, logits.in(), labels.in(), correct.out());
    CHECK(correct[0] > 80);
    CHECK(correct[0] < 220);
    return correct.values();
  });
}

TEST_CASE("accuracy: evaluate gives the share of valid labels") {
  using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;
  using trainer = ct::trainer<task, ct::precision::fp32, ct::optimizer::sgd>;
  trainer t;
  auto const w = random_batch::draw<trainer>(3);
  auto const y = t.predict(w.inputs);
  int valid = 0, correct = 0;
  for (std::size_t i = 0; i < w.labels.size(); ++i) {
    if (w.labels[i] == ct::ignored_label) continue;
    auto const row = y.logits.begin() + static_cast<std::ptrdiff_t>(i * 5);
    ++valid;
    correct += std::max_element(row, row + 5) - row == w.labels[i];
  }
  auto const e = t.evaluate(w.inputs, w.labels);
  CHECK(e.tokens == valid);
  CHECK(e.accuracy == static_cast<double>(correct) / valid);
}
