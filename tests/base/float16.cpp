#include <constrain/base/float16.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif

using constrain::float16;

namespace {

constexpr float16 half_of(std::uint32_t bits) {
  float16 half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}
std::uint16_t bits_of(float x) { return float16(x).bits; }

// The conversions are constant expressions.
static_assert(float16(1.0f).bits == 0x3C00 && float16(-2.0f).bits == 0xC000 && float(half_of(0x0001)) == 0x1p-24f);

/// Calls f(x) for floats of every sign and exponent, around every border of rounding; for all 2^32 in the exhaustive
/// tests.
template <class function> void for_floats(function const& f) {
  if (std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr) {
    std::uint32_t u = 0;
    do f(std::bit_cast<float>(u));
    while (++u != 0);
    return;
  }
  // The 13 bits that a normal half loses, and the more that a subnormal one loses, are at and around every tie.
  for (std::uint32_t high = 0; high < 1u << 19; ++high)
    for (std::uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x1FFFu})
      f(std::bit_cast<float>(high << 13 | low));
}

/// The nearest half by its definition, in exact arithmetic: a multiple of the step 2^(e - 10) of x's binade, at least
/// the step of the subnormals, 2^-24. std::nearbyint rounds ties to even.
double nearest(float x) {
  int const exponent = std::max(std::ilogb(x), -14) - 10;
  double const value = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(x), -exponent)), exponent);
  return std::abs(value) > 65504 ? std::copysign(std::numeric_limits<double>::infinity(), value) : value;
}

} // namespace

TEST_CASE("every float16 has its value by IEEE 754 and comes back") {
  for (int bits = 0; bits < 0x10000; ++bits) {
    float const x = half_of(static_cast<std::uint32_t>(bits));
    int const exponent = bits >> 10 & 31, mantissa = bits & 1023;
    CAPTURE(bits);
    if (exponent == 31 && mantissa != 0) {
      CHECK(std::isnan(x));
      CHECK(bits_of(x) == 0x7FFF);
      continue;
    }
    auto const magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
    CHECK(std::abs(x) == magnitude);
    CHECK(std::signbit(x) == (bits >= 0x8000));
    CHECK(bits_of(x) == bits);
  }
}

TEST_CASE("float16: the nearest is taken, the even one of two, infinity from 65520 on") {
  long wrong = 0;
  for_floats([&](float x) {
    auto const half = float16(x);
    if (std::isnan(x)) wrong += half.bits == 0x7FFF ? 0 : 1;
    else if (std::isinf(x) || x == 0) wrong += float(half) == x && std::signbit(float(half)) == std::signbit(x) ? 0 : 1;
    else
      wrong += static_cast<double>(float(half)) == nearest(x) && std::signbit(float(half)) == std::signbit(x) ? 0 : 1;
  });
  CHECK(wrong == 0);
  CHECK(bits_of(65504.0f) == 0x7BFF);
  CHECK(bits_of(std::nextafter(65520.0f, 0.0f)) == 0x7BFF);
  CHECK(bits_of(65520.0f) == 0x7C00);
  CHECK(bits_of(-0x1p-25f) == 0x8000);
  CHECK(bits_of(std::nextafter(0x1p-25f, 1.0f)) == 0x0001);
}

#if __has_include(<cuda_fp16.h>)
TEST_CASE("the same bits as the CUDA Toolkit's __half") {
  long different = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    __half_raw raw;
    raw.x = static_cast<std::uint16_t>(bits);
    auto const theirs = std::bit_cast<std::uint32_t>(__half2float(__half(raw)));
    different += theirs == std::bit_cast<std::uint32_t>(float(half_of(bits))) ? 0 : 1;
  }
  for_floats([&](float x) {
    __half_raw const theirs = __float2half_rn(x);
    different += theirs.x == bits_of(x) ? 0 : 1;
  });
  CHECK(different == 0);
}
#else
TEST_CASE("the same bits as the CUDA Toolkit's __half (SKIPPED: cuda_fp16.h was not found)") {}
#endif
