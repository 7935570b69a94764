#include <constrain/program/extents.hpp>
#include <doctest/doctest.h>

using namespace constrain;

namespace {

constexpr std::int64_t int_max = 2147483647, long_max = 9223372036854775807;

/// The diagnosis for a shape in loops with these numbers of iterations.
constexpr diagnosis said_of(shape s, std::initializer_list<std::int64_t> iterations = {}, std::int64_t carried = 0) {
  program p;
  value_info info;
  info.shape = s;
  info.line = 7;
  for (auto const extent : iterations) info.axes.push_back(p.add_axis({.name = {}, .extent = extent}));
  if (carried > 0) info.loop_carried_axis = p.add_axis({.name = {}, .extent = carried});
  return check_extents(p, info);
}
constexpr why reason_of(shape s, std::initializer_list<std::int64_t> iterations = {}, std::int64_t carried = 0) {
  return said_of(s, iterations, carried).reason;
}

static_assert(reason_of({}) == why::nothing && reason_of(shape(1)) == why::nothing);
static_assert(reason_of(shape(2, 3, 4, 5)) == why::nothing);
static_assert(said_of(shape(3, 0)) == diagnosis{why::extent_below_one, 7, 0, 1, 0});
static_assert(said_of(shape(-8, 3)) == diagnosis{why::extent_below_one, 7, 0, 1, -8});
static_assert(reason_of(shape(-int_max - 1)) == why::extent_below_one);
static_assert(reason_of(shape(-long_max - 1)) == why::extent_below_one);

// The limit itself, one more, and products that 64 bits do not hold.
static_assert(reason_of(shape(maximum_elements)) == why::nothing);
static_assert(reason_of(shape(maximum_elements + 1)) == why::tensor_too_large);
static_assert(reason_of(shape(int_max)) == why::nothing && reason_of(shape(int_max, 32768)) == why::nothing);
static_assert(said_of(shape(int_max, int_max)) == diagnosis{why::tensor_too_large, 7, 0, maximum_elements, int_max});
static_assert(reason_of(shape(long_max, long_max, long_max, long_max)) == why::tensor_too_large);
static_assert(has_valid_extents({}) && has_valid_extents(shape(2, 3)) && !has_valid_extents(shape(3, 0)));
static_assert(has_valid_extents(shape(maximum_elements)) && !has_valid_extents(shape(2, maximum_elements)));
static_assert(!has_valid_extents(shape(long_max, long_max)) && !has_valid_extents(shape(-long_max - 1, -1)));
// Loops count, and what is carried along one has an instance more than iterations.
static_assert(reason_of(shape(64), {int_max}) == why::nothing);
static_assert(reason_of(shape(64), {int_max, int_max}) == why::tensor_too_large);
static_assert(reason_of(shape(2), {}, maximum_elements / 2 - 1) == why::nothing);
static_assert(reason_of(shape(2), {}, maximum_elements / 2) == why::tensor_too_large);
static_assert(reason_of(shape(64), {0, -5, 3}) == why::nothing);
// Sums of bytes over a program of the largest values stay within 64 bits, the rounding to 64 included.
static_assert(maximum_elements <= long_max / (64 * program::maximum_values));

} // namespace

TEST_CASE("extents are asked before anything is multiplied") {
  CHECK(said_of(shape(int_max, int_max)).reason == why::tensor_too_large);
  CHECK(said_of(shape(64), {int_max, int_max}).got == int_max);
}
