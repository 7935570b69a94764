#include <constrain/device/turns.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <numbers>

namespace math = constrain::math;

TEST_CASE("the sine and the cosine of turns") {
  for (double const whole : {0.0, 1.0, -3.0, 100000.0})
    for (int k = 0; k < 64; ++k) {
      double const part = k / 64.0;
      CAPTURE(whole + part);
      // Sixty-fourths and whole turns are exact, so whole turns change nothing.
      CHECK(std::abs(math::sine_of_turns(whole + part) - std::sin(2 * std::numbers::pi * part)) < 1e-15);
      CHECK(std::abs(math::cosine_of_turns(whole + part) - std::cos(2 * std::numbers::pi * part)) < 1e-15);
    }
}
