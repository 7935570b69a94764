#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <cmath>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

// The op comes after the gradients, so it has none.
static_assert(ct::info_of<ct::op::round_to_tf32>.gradient == nullptr);

namespace {

float rounded(float x) {
  array<float> const from(shape(1), {x});
  array<float> to(shape(1));
  call_kernel<ct::op::round_to_tf32>(plain, from.in(), to.out());
  return to[0];
}

} // namespace

TEST_CASE("round_to_tf32: the nearest number with 10 bits of fraction, ties to even") {
  CHECK(rounded(1 + 0x1p-10f) == 1 + 0x1p-10f);
  CHECK(rounded(1 + 0x1p-11f) == 1);                         // a tie, to even
  CHECK(rounded(1 + 3 * 0x1p-11f) == 1 + 0x1p-9f);           // a tie, to even
  CHECK(rounded(1 + 0x1p-11f + 0x1p-20f) == 1 + 0x1p-10f);   // above the tie
  CHECK(rounded(-1 - 0x1p-11f - 0x1p-20f) == -1 - 0x1p-10f); // signs are symmetric
  CHECK(rounded(2 - 0x1p-23f) == 2);                         // into the next exponent
  CHECK(rounded(0) == 0);
  CHECK(std::signbit(rounded(-0.0f)));
  CHECK(rounded(0x1p-126f) == 0x1p-126f);
}

TEST_CASE("round_to_tf32: infinities and NaN stay, numbers beyond the largest become infinite") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(rounded(infinity) == infinity);
  CHECK(rounded(-infinity) == -infinity);
  CHECK(std::isnan(rounded(std::nanf(""))));
  CHECK(rounded(std::numeric_limits<float>::max()) == infinity);
}

TEST_CASE("round_to_tf32: the error is at most 2^-11 of the number") {
  auto const x = array<float>::random(shape(5000), 3);
  array<float> y(shape(5000));
  call_kernel<ct::op::round_to_tf32>(plain, x.in(), y.out());
  int changed = 0;
  for (std::size_t i = 0; i < 5000; ++i) {
    CHECK(std::abs(y[i] - x[i]) <= std::abs(x[i]) * 0x1p-11f);
    CHECK((__builtin_bit_cast(std::uint32_t, y[i]) & 0x1FFFu) == 0);
    changed += y[i] != x[i] ? 1 : 0;
  }
  CHECK(changed > 4900);
}
