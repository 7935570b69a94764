#include <constrain/base/bfloat16.hpp>
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif

using constrain::bfloat16;

namespace {

std::uint16_t bits_of(float x) { return bfloat16(x).bits; }

/// Calls f(x) for floats of every upper half, around every way to round, and for many others; for all 2^32 in the
/// exhaustive tests.
template <class function> void for_floats(function const& f) {
  if (std::getenv("CONSTRAIN_EXHAUSTIVE") != nullptr) {
    std::uint32_t u = 0;
    do f(std::bit_cast<float>(u));
    while (++u != 0);
    return;
  }
  for (std::uint32_t high = 0; high < 0x10000; ++high)
    for (std::uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      f(std::bit_cast<float>(high << 16 | low));
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) f(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
}

} // namespace

TEST_CASE("every bfloat16 is a float and comes back") {
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    bfloat16 b;
    b.bits = static_cast<std::uint16_t>(high);
    float const x = b;
    CHECK_EQ(std::bit_cast<std::uint32_t>(x), high << 16);
    if (std::isnan(x)) CHECK(std::isnan(float(bfloat16(x))));
    else CHECK_EQ(bits_of(x), high);
  }
}

TEST_CASE("the nearest is taken, the even one of two") {
  int wrong = 0;
  for_floats([&](float x) {
    if (std::isnan(x)) {
      wrong += std::isnan(float(bfloat16(x))) ? 0 : 1;
      return;
    }
    // The two neighbours of a magnitude, infinity one step above the largest.
    auto const u = std::bit_cast<std::uint32_t>(x);
    auto const below = u & 0xFFFF0000u;
    auto const rest = u & 0xFFFFu;
    bool const up = rest > 0x8000u || (rest == 0x8000u && (u >> 16 & 1u) != 0);
    wrong += bits_of(x) == ((below >> 16) + (up ? 1 : 0)) ? 0 : 1;
  });
  CHECK(wrong == 0);
}

#if __has_include(<cuda_bf16.h>)
TEST_CASE("the same bits as the CUDA Toolkit's __nv_bfloat16") {
  long different = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    __nv_bfloat16_raw raw;
    raw.x = static_cast<std::uint16_t>(bits);
    bfloat16 b;
    b.bits = raw.x;
    auto const theirs = std::bit_cast<std::uint32_t>(__bfloat162float(__nv_bfloat16(raw)));
    different += theirs == std::bit_cast<std::uint32_t>(float(b)) ? 0 : 1;
  }
  for_floats([&](float x) {
    __nv_bfloat16_raw const theirs = __float2bfloat16_rn(x);
    different += theirs.x == bits_of(x) ? 0 : 1;
  });
  CHECK(different == 0);
}
#else
TEST_CASE("the same bits as the CUDA Toolkit's __nv_bfloat16 (SKIPPED: cuda_bf16.h was not found)") {}
#endif
