#include "constrain/device/random.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

namespace ct = constrain;

namespace {

constexpr std::uint32_t ones = 0xffffffffu;

// The known answers published with the algorithm: zeros, ones, and digits of pi.
static_assert(ct::philox({{0, 0, 0, 0}}, {{0, 0}}) ==
              ct::philox_block{{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
static_assert(ct::philox({{ones, ones, ones, ones}}, {{ones, ones}}) ==
              ct::philox_block{{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
static_assert(ct::philox({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, {{0xa4093822u, 0x299f31d0u}}) ==
              ct::philox_block{{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});

static_assert(ct::uniform(0) == 0.0f);
static_assert(ct::uniform(0xffu) == 0.0f);
static_assert(ct::uniform(0x80000000u) == 0.5f);
static_assert(ct::uniform(ones) == 1.0f - 0x1p-24f);

} // namespace

TEST_CASE("philox gives at run time what it gives at compile time") {
  std::uint32_t volatile zero = 0;
  CHECK(ct::philox({{zero, zero, zero, zero}}, {{zero, zero}}) == ct::philox({}, {}));
}

TEST_CASE("uniform has the moments of [0, 1)") {
  constexpr std::uint32_t blocks = 50'000;
  double sum = 0, squares = 0;
  for (std::uint32_t i = 0; i < blocks; ++i)
    for (std::uint32_t const word : ct::philox({{i, 0, 0, 0}}, {{7, 11}}).word) {
      float const u = ct::uniform(word);
      REQUIRE(u >= 0.0f);
      REQUIRE(u < 1.0f);
      sum += u;
      squares += double{u} * u;
    }
  double const mean = sum / (4.0 * blocks);
  CHECK(mean == doctest::Approx(0.5).epsilon(0.005)); // 4 standard errors
  CHECK(squares / (4.0 * blocks) - mean * mean == doctest::Approx(1.0 / 12).epsilon(0.01));
}

TEST_CASE("normal has the moments of the standard normal distribution") {
  constexpr std::uint32_t pairs = 100'000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0, products = 0;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    auto const block = ct::philox({{i, 1, 2, 3}}, {{5, 8}});
    auto const [x, y] = ct::normal(block.word[0], block.word[1]);
    for (double const v : {x, y}) {
      sum += v;
      squares += v * v;
      cubes += v * v * v;
      fourths += v * v * v * v;
    }
    products += x * y;
  }
  double const count = 2.0 * pairs;
  CHECK(std::abs(sum / count) < 0.01);
  CHECK(squares / count == doctest::Approx(1).epsilon(0.015));
  CHECK(std::abs(cubes / count) < 0.04);
  CHECK(fourths / count == doctest::Approx(3).epsilon(0.03));
  CHECK(std::abs(products / pairs) < 0.015);
}

TEST_CASE("normal is finite for every extreme word") {
  for (std::uint32_t const first : {0u, 1u, ones})
    for (std::uint32_t const second : {0u, 1u, ones}) {
      auto const [x, y] = ct::normal(first, second);
      CHECK(std::hypot(x, y) < 6.77);
      CHECK(std::isfinite(x));
      CHECK(std::isfinite(y));
    }
  CHECK(ct::normal(0, 0).first == doctest::Approx(6.7638).epsilon(1e-4));
}
