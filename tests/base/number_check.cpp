#include <constrain/base/number_check.hpp>

#include <doctest/doctest.h>

#include <string>

#include "../sentence.hpp"

namespace ct = constrain;
using ct::detail::number_text;
using ct::test::sentence;

TEST_CASE("a refused number is told apart from the limit") {
  auto const refusal = [](double value, ct::number_range range) {
    return sentence([&] { ct::check_number("options", ".share", value, range); });
  };
  CHECK(refusal(1.0000000001, ct::number_range::from_zero_to_one) ==
        "options: .share is 1.0000000001; give a number from 0 to 1");
  CHECK(refusal(1 + 0x1p-52, ct::number_range::from_zero_to_one) ==
        "options: .share is 1.0000000000000002; give a number from 0 to 1");
  CHECK(refusal(-0x1p-1074, ct::number_range::from_zero) ==
        "options: .share is -4.94065646e-324; give a finite number of at least 0");
  CHECK(refusal(1, ct::number_range::from_zero_to_one) == "");
  for (double const x : {0.0, 1 + 0x1p-52, -1.0})
    CHECK(refusal(x, ct::number_range::above_zero_to_one) ==
          "options: .share is " + number_text(x) + "; give a number above 0 and at most 1");
  for (double const x : {0x1p-1074, 1.0}) CHECK(refusal(x, ct::number_range::above_zero_to_one) == "");
}

TEST_CASE("a number has as many digits as it takes to read it back") {
  CHECK(number_text(100000) == "100000");
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(static_cast<double>(0.1f)) == "0.100000001"); // an fp32 number, whose digits end there
  CHECK(number_text(0.1 + 0.2) == "0.30000000000000004");
  CHECK(number_text(1e9 + 0.5) == "1000000000.5");
  CHECK(number_text(1e300) == "1e+300");
  CHECK(number_text(__builtin_inf()) == "inf");
  CHECK(number_text(-__builtin_inf()) == "-inf");
  CHECK(number_text(__builtin_nan("")) == "nan");
}
