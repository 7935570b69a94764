#include "op/call_kernel.hpp"

#include <doctest/doctest.h>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using optimizer = ct::optimizer::averaged<ct::optimizer::sgd>;
using average_op = ct::op::moving_average<optimizer>;
static_assert(ct::info_of<average_op>.gradient == nullptr && ct::info_of<average_op>.guarded);

/// The average of 2 and `weight` after update number `update`.
double averaged(double weight, double decay, std::int64_t update, double scale = 1) {
  array<double> const weights(shape(1), {weight});
  array<double> const norm_and_scale(shape(2), {1, scale});
  ct::op::step_hyperparameters<optimizer, double> const prepared({.base = {}, .decay = static_cast<float>(decay)},
                                                                 {update});
  array<std::uint8_t> bytes(shape(sizeof prepared), std::vector<std::uint8_t>(sizeof prepared));
  std::memcpy(bytes.out().data, &prepared, sizeof prepared);
  array<double> average(shape(1), {2});
  call_kernel<average_op>(ct::call{ct::attributes{}, no_parameters}, weights.in(), norm_and_scale.in(), bytes.in(),
                          average.out());
  return average[0];
}

} // namespace

TEST_CASE("the first update copies the weight, later ones move the average") {
  CHECK(averaged(10, 0.75, 1) == 10);
  CHECK(averaged(10, 0.75, 2) == 0.75 * 2 + 0.25 * 10);
  CHECK(averaged(10, 0, 7) == 10);
}

TEST_CASE("a skipped update moves no average") { CHECK(averaged(10, 0.75, 2, 0) == 2); }

TEST_CASE("the hyperparameters of the optimizer inside are the beginning of the same bytes") {
  ct::op::step_hyperparameters<optimizer, double> const all({.base = {.learning_rate = 3}, .decay = 0.5f}, {4});
  array<std::uint8_t> bytes(shape(sizeof all), std::vector<std::uint8_t>(sizeof all));
  std::memcpy(bytes.out().data, &all, sizeof all);
  auto const& inside = ct::op::hyperparameters_of<ct::optimizer::sgd, double>(bytes.in());
  CHECK(inside.other.learning_rate == 3);
  CHECK(inside.step.number == 4);
}
