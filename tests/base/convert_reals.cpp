#include <constrain/base/convert_reals.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace ct = constrain;
using ct::dtype;

namespace {

/// The elements of `from`, converted to type `to`, from and to addresses that are not aligned.
template <class to, class from> std::vector<to> converted(std::vector<from> const& values) {
  std::vector<std::byte> source(values.size() * sizeof(from) + 1), target(values.size() * sizeof(to) + 2);
  std::memcpy(source.data() + 1, values.data(), values.size() * sizeof(from));
  target.back() = std::byte{42};
  ct::convert_reals(ct::dtype_of<from>, source.data() + 1, ct::dtype_of<to>, target.data() + 1,
                    static_cast<std::int64_t>(values.size()));
  CHECK(target.back() == std::byte{42});
  std::vector<to> result(values.size());
  std::memcpy(result.data(), target.data() + 1, result.size() * sizeof(to));
  return result;
}

template <class T> std::vector<T> drawn(std::size_t count) {
  std::mt19937_64 random(7);
  std::vector<T> values(count);
  for (auto& x : values) {
    double const mantissa = std::uniform_real_distribution<double>(-2, 2)(random);
    x = static_cast<T>(static_cast<ct::arithmetic<T>>(std::ldexp(mantissa, static_cast<int>(random() % 40) - 26)));
  }
  return values;
}

/// Whether every pair of types converts as a cast of the single element does.
template <class from, class to> void check_pair() {
  for (std::size_t const count : {0, 1, 511, 512, 513, 2000}) {
    auto const values = drawn<from>(count);
    auto const found = converted<to>(values);
    std::size_t equal = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto const expected = static_cast<to>(static_cast<ct::arithmetic<to>>(values[i]));
      equal += std::memcmp(&found[i], &expected, sizeof(to)) == 0 ? 1 : 0;
    }
    CHECK(equal == count);
  }
}

template <class from> void check_from() {
  check_pair<from, double>();
  check_pair<from, float>();
  check_pair<from, ct::bfloat16>();
  check_pair<from, ct::float16>();
}

float half_value(std::uint16_t bits) {
  ct::float16 half;
  half.bits = bits;
  return converted<float>(std::vector{half})[0];
}

} // namespace

TEST_CASE("convert_reals: every pair of types, as casts of single elements") {
  check_from<double>();
  check_from<float>();
  check_from<ct::bfloat16>();
  check_from<ct::float16>();
}

TEST_CASE("convert_reals: infinities and NaN stay") {
  auto const infinity = std::numeric_limits<float>::infinity();
  auto const found = converted<ct::bfloat16>(std::vector<double>{1e300, -1e300, std::nan("")});
  CHECK(static_cast<float>(found[0]) == infinity);
  CHECK(static_cast<float>(found[1]) == -infinity);
  CHECK(std::isnan(static_cast<float>(found[2])));
}

TEST_CASE("convert_reals: halves have their values") {
  CHECK(half_value(0x0000) == 0.0f);
  CHECK(std::signbit(half_value(0x8000)));
  CHECK(half_value(0x0001) == 0x1p-24f);
  CHECK(half_value(0x83ff) == -0x1.ff8p-15f);
  CHECK(half_value(0x0400) == 0x1p-14f);
  CHECK(half_value(0x3c00) == 1.0f);
  CHECK(half_value(0xc555) == -5.33203125f);
  CHECK(half_value(0x7bff) == 65504.0f);
  CHECK(std::isinf(half_value(0x7c00)));
  CHECK(std::isnan(half_value(0x7e00)));
}
