// Conversions and mathematical functions that are other instructions on a device than on the host.

#include <constrain/constrain.hpp>
#include <constrain/device/cuda/packs.cuh>
#include <constrain/device/math.hpp>
#include <doctest/doctest.h>

#include "cuda/probe.cuh"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;

namespace {

constexpr int count = 1024;

/// Rounds elements one by one and in packs, and converts the packs back.
template <class stored> static __global__ void round_kernel(float const* x, stored* single, stored* packed, float* y) {
  auto const i = static_cast<int>(threadIdx.x) * 8;
  float values[8];
  ct::load_pack(x + i, values);
  for (int j = 0; j < 8; ++j) single[i + j] = values[j];
  ct::store_pack(values, packed + i);
  ct::load_pack(packed + i, values);
  for (int j = 0; j < 8; ++j) y[i + j] = values[j];
}

static __global__ void functions_kernel(float const* x, float* y) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) {
    y[i] = ct::math::exp_or_zero(x[i]);
    y[count + i] = ct::math::gate(x[i]);
    y[2 * count + i] = ct::math::fast_sqrt(x[i] * x[i]);
    y[3 * count + i] = ct::math::fast_quotient(x[i], 0.3f);
  }
}

static __global__ void ballot_kernel(int const* x, unsigned* to) {
  to[threadIdx.x] = __ballot_sync(0xFFFFFFFF, x[threadIdx.x] != 0);
}

template <class stored> void rounds_like_the_host() {
  std::mt19937 random(7);
  std::vector<float> x(count);
  for (auto& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  std::size_t next = 0;
  for (float special : {0.0f, -0.0f, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max(), 1e-40f, 0x1.01p0f,
                        0x1.03p0f, 0x1.002p0f, 0x1.006p0f, 65519.0f, 65520.0f})
    x[next++] = special;
  probe p;
  auto const* const from = p.to_device(x);
  auto* const single = p.room<stored>(count);
  auto* const packed = p.room<stored>(count);
  auto* const back = p.room<float>(count);
  p.run(count / 8, round_kernel<stored>, from, single, packed, back);
  auto const one_by_one = p.from_device(single, count), in_packs = p.from_device(packed, count);
  auto const converted = p.from_device(back, count);
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(x[i]);
    stored const expected = x[i];
    CHECK(one_by_one[i].bits == expected.bits);
    CHECK(in_packs[i].bits == expected.bits);
    auto const value = static_cast<float>(expected);
    if (std::isnan(value)) CHECK(std::isnan(converted[i]));
    else CHECK(std::bit_cast<std::uint32_t>(converted[i]) == std::bit_cast<std::uint32_t>(value));
  }
}

} // namespace

TEST_CASE("a device rounds to 16 bits like the host, one by one and in packs") {
  rounds_like_the_host<ct::bfloat16>();
  rounds_like_the_host<ct::float16>();
}

TEST_CASE("the fast functions of a device have the stated errors") {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = (static_cast<float>(i) - 511.5f) / 6;
  probe p;
  auto const* const from = p.to_device(x);
  auto* const to = p.room<float>(4 * count);
  p.run(32, functions_kernel, from, to);
  auto const y = p.from_device(to, 4 * count);
  double largest[4]{};
  for (std::size_t i = 0; i < count; ++i) {
    double const at = static_cast<double>(x[i]), exponential = std::exp(at), size = std::abs(at);
    double const expected[] = {exponential, 1 / (1 + std::exp(-at)), static_cast<double>(std::sqrt(x[i] * x[i])),
                               static_cast<double>(x[i]) / static_cast<double>(0.3f)};
    double const bound[] = {0x1p-22 + 0x1p-23 * size, 0x1p-21 + 0x1p-23 * size, 0x1p-22, 0x1p-22};
    for (std::size_t which = 0; which < 4; ++which) {
      auto const got = static_cast<double>(y[which * count + i]);
      CAPTURE(which);
      CAPTURE(x[i]);
      auto const off = std::abs(got - expected[which]) / std::abs(expected[which]);
      CHECK(off <= bound[which]);
      largest[which] = std::max(largest[which], off);
    }
  }
  std::printf("largest relative errors: exp_or_zero %.2e, gate %.2e, fast_sqrt %.2e, fast_quotient %.2e\n", largest[0],
              largest[1], largest[2], largest[3]);
}

TEST_CASE("the functions at the ends of their ranges") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(count, 0.0f);
  x[0] = -infinity, x[1] = -200.0f, x[2] = std::numeric_limits<float>::quiet_NaN(), x[3] = 100.0f;
  probe p;
  auto const* const from = p.to_device(x);
  auto* const to = p.room<float>(4 * count);
  p.run(32, functions_kernel, from, to);
  auto const y = p.from_device(to, 4 * count);
  CHECK(y[0] == 0);
  CHECK(y[1] == 0);
  CHECK(y[count] == 0);
  CHECK(y[count + 1] == 0);
  CHECK(y[count + 3] == 1);
  CHECK(y[count + 4] == 0.5f);
  for (int const function : {0, 2, 3}) CHECK(std::isnan(y[static_cast<std::size_t>(function * count + 2)]));
  CHECK(std::isnan(y[count + 2] * x[2])); // of x gate(x)
  CHECK(y[2 * count + 4] == 0);
  CHECK(y[3 * count + 4] == 0);
}

namespace {

static __global__ void roots_kernel(float const* x, float* y) {
  auto const i = static_cast<int>(threadIdx.x);
  y[i] = ct::math::fast_sqrt(x[i]);
  y[32 + i] = ct::math::fast_quotient(x[i], 1e-30f);
}

} // namespace

// Averages of squares are from 0 to the largest float, subnormal ones among them.
TEST_CASE("roots and quotients of the smallest and largest numbers") {
  std::vector<float> const x{1e-45f, 1e-40f, 1.2e-38f, 1e-30f, 1e30f, 3e38f, std::numeric_limits<float>::infinity(),
                             -1.0f};
  probe p;
  auto all = x;
  all.resize(32, 1.0f);
  auto const* const from = p.to_device(all);
  auto* const to = p.room<float>(64);
  p.run(32, roots_kernel, from, to);
  auto const y = p.from_device(to, 64);
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    double const root = std::sqrt(static_cast<double>(x[i])), quotient = static_cast<double>(x[i]) / 1e-30;
    if (std::isnan(root)) CHECK(std::isnan(y[i]));
    else if (std::isinf(root)) CHECK(std::isinf(y[i]));
    else CHECK(std::abs(static_cast<double>(y[i]) - root) <= 0x1p-22 * root);
    if (std::abs(quotient) > 3.4e38) CHECK(std::isinf(y[32 + i]));
    else CHECK(std::abs(static_cast<double>(y[32 + i]) - quotient) <= 0x1p-21 * std::abs(quotient) + 1e-45);
  }
}

TEST_CASE("the lanes of a warp vote") {
  std::vector<int> x(32);
  for (std::size_t i = 0; i < 32; ++i) x[i] = i % 3 == 0 ? 5 : 0;
  probe p;
  auto const* const from = p.to_device(x);
  auto* const to = p.room<unsigned>(32);
  p.run(32, ballot_kernel, from, to);
  for (auto const mask : p.from_device(to, 32)) CHECK(mask == 0x49249249u);
}
