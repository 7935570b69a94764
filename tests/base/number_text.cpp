#include <constrain/base/number_check.hpp>
#include <constrain/base/number_text.hpp>

#include <doctest/doctest.h>

#include "../decimal_comma.hpp"

namespace ct = constrain;
using ct::detail::fixed_text;

TEST_CASE("numbers have a decimal point in every locale") {
  ct::test::decimal_comma const locale;
  CHECK(fixed_text(64, 1) == "64.0");
  CHECK(fixed_text(-0.25, 2) == "-0.25");
  CHECK(fixed_text(1e300, 0).size() == 301);
  CHECK(ct::detail::number_text(0.1 + 0.2) == "0.30000000000000004");
  CHECK(ct::detail::number_text(static_cast<double>(0.1f)) == "0.100000001");
  CHECK(ct::detail::bytes_text(ct::bytes(1536)) == "1.5 KiB");
  CHECK(ct::detail::bytes_text(ct::mebibytes(3)) == "3.0 MiB");
}
