#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <limits>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

// Only evaluation counts classes.
static_assert(ct::info_of<ct::op::class_counts>.gradient == nullptr);
static_assert(ct::info_of<ct::op::class_counts>.infer(types({f32(shape(2, 3, 5)), i32(shape(2, 3))}), {}).outputs[0] ==
              f64(shape(3, 5)));

TEST_CASE_TEMPLATE("class_counts: the first of equals is predicted, an ignored label does not count", real, float,
                   double) {
  array<real> const logits(shape(5, 3), {1, 3, 2, /**/ 2, 2, 1, /**/ 2, 2, 1, /**/ 0, 0, 9, /**/ -3, -2, -1});
  array<std::int32_t> const labels(shape(5), {1, 0, 1, ct::ignored_label, 2});
  array<double> counts(shape(3, 3));
  array<std::int32_t> scratch(shape(5));
  call_kernel<ct::op::class_counts>(plain, logits.in(), labels.in(), counts.out(), scratch.out());
  CHECK(counts.values() == std::vector<double>{1, 1, 1, /* predicted */ 2, 1, 1, /* labels */ 1, 2, 1});
}

TEST_CASE_TEMPLATE("class_counts: NaN is never predicted", real, float, double) {
  auto const nan = std::numeric_limits<real>::quiet_NaN();
  array<real> const logits(shape(3, 2), {nan, 3, /**/ nan, nan, /**/ 1, nan});
  array<std::int32_t> const labels(shape(3), {0, 0, 0});
  array<double> counts(shape(3, 2));
  array<std::int32_t> scratch(shape(3));
  call_kernel<ct::op::class_counts>(plain, logits.in(), labels.in(), counts.out(), scratch.out());
  CHECK(counts.values() == std::vector<double>{1, 0, /* predicted */ 1, 1, /* labels */ 3, 0});
}

TEST_CASE("class_counts: the same on every number of threads, and the sums of accuracy") {
  auto const logits = array<float>::random(shape(701, 5), 1);
  auto const labels = array<std::int32_t>::integers(shape(701), 2, 5);
  array<double> correct(shape{});
  call_kernel<ct::op::correct_predictions>(plain, logits.in(), labels.in(), correct.out());
  check_same_on_all_threads([&] {
    array<double> counts(shape(3, 5));
    array<std::int32_t> scratch(shape(701));
    call_kernel<ct::op::class_counts>(plain, logits.in(), labels.in(), counts.out(), scratch.out());
    double sums[3]{};
    for (int i = 0; i < 15; ++i) sums[i / 5] += counts[i];
    CHECK(sums[0] == correct[0]);
    CHECK(sums[1] == 701);
    CHECK(sums[2] == 701);
    return counts.values();
  });
}
