#include <constrain/train/interval.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace ct = constrain;

namespace {

std::vector<std::int64_t> steps_due(ct::interval every, std::int64_t of) {
  std::vector<std::int64_t> due;
  for (std::int64_t step = 1; step <= of; ++step)
    if (every.due(step, of)) due.push_back(step);
  return due;
}

using steps = std::vector<std::int64_t>;

} // namespace

static_assert(ct::interval(3).due(6, 100) && !ct::interval(3).due(7, 100));
static_assert(ct::interval(ct::part_of_run{1, 10}).due(100, 1000));

TEST_CASE("every so many steps, or never") {
  CHECK(steps_due(4, 10) == steps{4, 8});
  CHECK(steps_due(ct::optimizer_steps(5), 10) == steps{5, 10});
  CHECK(steps_due({}, 10).empty());
  CHECK(steps_due(-1, 10).empty());
}

TEST_CASE("exact parts of a run") {
  CHECK(steps_due(ct::part_of_run{1, 3}, 10) == steps{4, 7, 10});
  CHECK(steps_due(ct::part_of_run{1, 10}, 10) == steps{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(steps_due(ct::part_of_run{3, 20}, 100) == steps{15, 30, 45, 60, 75, 90});
  CHECK(steps_due(ct::part_of_run{1, 10}, 3) == steps{1, 2, 3}); // more parts than steps
  CHECK(steps_due(ct::part_of_run{2, 1}, 10).empty());
  CHECK(steps_due(ct::part_of_run{0, 1}, 10).empty());
  // A tenth of a number of steps that no float holds.
  std::int64_t const many = (std::int64_t{1} << 62) + 10;
  CHECK(ct::interval(ct::part_of_run{1, 10}).due(many, many));
  CHECK_FALSE(ct::interval(ct::part_of_run{1, 10}).due(many - 1, many));
}
