// Rounding to TF32 on the device, bit for bit as on the CPU.

#include <doctest/doctest.h>

#include "cuda/probe.cuh"
#include "op/call_kernel.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("rounding to TF32, as on the CPU") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t const count : {1, 7, 1024, 3001}) {
    ct::shape const s(count);
    auto x = array<float>::random(s, 1);
    x[0] = std::nanf("");
    if (count > 6) x[1] = infinity, x[2] = -infinity, x[3] = std::numeric_limits<float>::max(), x[4] = -0.0f;
    if (count > 6) x[5] = 1 + 0x1p-11f, x[6] = 1 + 3 * 0x1p-11f; // ties
    array<float> expected(s);
    call_kernel<ct::op::round_to_tf32>(plain, x.in(), expected.out());
    probe p;
    auto* const from = p.to_device(x.values());
    auto* const to = p.room<float>(static_cast<std::size_t>(count));
    p.call_kernel<ct::op::round_to_tf32>(ct::tensor<float const>{from, &s, count}, ct::tensor<float>{to, &s, count});
    auto const found = p.from_device(to, static_cast<std::size_t>(count));
    CHECK(std::memcmp(found.data(), expected.values().data(), found.size() * sizeof(float)) == 0);
  }
}
