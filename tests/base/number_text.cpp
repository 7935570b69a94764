#include <constrain/base/number_check.hpp>
#include <constrain/base/number_text.hpp>

#include <doctest/doctest.h>

#include "../decimal_comma.hpp"

namespace ct = constrain;
using ct::bytes, ct::mebibytes, ct::detail::bytes_text, ct::detail::fixed_text;

TEST_CASE("numbers have a decimal point in every locale") {
  ct::test::decimal_comma const locale;
  CHECK(fixed_text(64, 1) == "64.0");
  CHECK(fixed_text(-0.25, 2) == "-0.25");
  CHECK(fixed_text(1e300, 0).size() == 301);
  CHECK(ct::detail::number_text(0.1 + 0.2) == "0.30000000000000004");
  CHECK(ct::detail::number_text(static_cast<double>(0.1f)) == "0.100000001");
  CHECK(bytes_text(bytes(1536)) == "1.5 KiB");
  CHECK(bytes_text(mebibytes(3)) == "3.0 MiB");
}

TEST_CASE("bytes in the unit that their rounded number needs") {
  CHECK(bytes_text(bytes(0)) == "0.0 KiB");
  CHECK(bytes_text(bytes(1536)) == "1.5 KiB");
  CHECK(bytes_text(mebibytes(1) - bytes(52)) == "1023.9 KiB");
  CHECK(bytes_text(mebibytes(1) - bytes(51)) == "1.0 MiB");
  CHECK(bytes_text(mebibytes(1) - bytes(1)) == "1.0 MiB");
  CHECK(bytes_text(mebibytes(1)) == "1.0 MiB");
  CHECK(bytes_text(mebibytes(1500)) == "1500.0 MiB");
}
