#include "variants/training.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

trained train_native();
trained train_fast();
std::int64_t argmax_fast(float const* x, std::int64_t count);
std::string json_fast(double x);
int code_fast(bool is_signed, float x);

TEST_CASE("translation units of different flags train side by side in one program") {
  auto const plain = train(), native = train_native();
  CHECK(plain.threads == 1);
#if defined(__x86_64__)
  CHECK(plain.instruction_set == "sse2");
  if (__builtin_cpu_supports("avx2")) CHECK(native.instruction_set != "sse2");
#endif
  for (std::size_t i = 0; i < plain.losses.size(); ++i)
    CHECK(std::abs(plain.losses[i] - native.losses[i]) <= 1e-5 * plain.losses[i]);
}

TEST_CASE("NaN is no argmax even with -ffast-math") {
  float const nan = std::nanf("");
  float const first[] = {nan, 3, 2}, last[] = {2, 3, nan}, all[] = {nan, nan, nan};
  CHECK(argmax_fast(first, 3) == 1);
  CHECK(argmax_fast(last, 3) == 1);
  CHECK(argmax_fast(all, 3) == 3);
}

TEST_CASE("JSON has NaN and infinities as strings even with -ffast-math") {
  double const infinity = std::numeric_limits<double>::infinity();
  CHECK(json_fast(std::nan("")) == R"(["nan", "nan"])");
  CHECK(json_fast(-std::nan("")) == R"(["nan", "nan"])");
  CHECK(json_fast(infinity) == R"(["inf", "inf"])");
  CHECK(json_fast(-infinity) == R"(["-inf", "-inf"])");
  CHECK(json_fast(0.5) == "[0.5, 0.5]");
}

TEST_CASE("8-bit states have a code for infinities and NaN even with -ffast-math") {
  float const nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  for (bool const is_signed : {true, false}) {
    CHECK(code_fast(is_signed, nan) == constrain::dynamic_map::zero(is_signed));
    CHECK(code_fast(is_signed, -nan) == constrain::dynamic_map::zero(is_signed));
    CHECK(code_fast(is_signed, infinity) == 255);
    CHECK(code_fast(is_signed, -infinity) == 0);
  }
}

TEST_CASE("a unit with -ffast-math, linked first, gives its code to no other") {
  auto const plain = train(), fast = train_fast();
  CHECK(plain.instruction_set == fast.instruction_set);
  CHECK(plain.variant != fast.variant);
  CHECK(plain.function != fast.function);
  for (std::size_t i = 0; i < plain.losses.size(); ++i)
    CHECK(std::abs(plain.losses[i] - fast.losses[i]) <= 1e-5 * plain.losses[i]);
}
