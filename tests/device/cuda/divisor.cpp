#include <constrain/device/cuda/divisor.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <random>

using constrain::divisor;

static_assert(divisor(1).quotient(5) == 5 && divisor(7).quotient(20) == 2 && divisor(1024).quotient(1023) == 0);

TEST_CASE("divisor: the quotient that a division gives") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::mt19937_64 random(3);
  for (int i = 0; i < 200'000; ++i) {
    // numbers of every length
    auto const some = [&] { return static_cast<std::int64_t>(random() >> 1 >> random() % 63); };
    auto const d = some() % most + 1, n = some();
    REQUIRE(divisor(d).quotient(n) == n / d);
    REQUIRE(divisor(d).quotient(most) == most / d);
    // beside a multiple of the divisor
    auto const multiple = n / d * d;
    REQUIRE(divisor(d).quotient(multiple) == n / d);
    if (multiple > 0) REQUIRE(divisor(d).quotient(multiple - 1) == n / d - 1);
  }
  for (std::int64_t const d : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, most - 1, most})
    for (std::int64_t const n : {std::int64_t{0}, std::int64_t{1}, d - 1, d, most - 1, most})
      REQUIRE(divisor(d).quotient(n) == n / d);
}
