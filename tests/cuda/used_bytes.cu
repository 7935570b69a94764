// The bytes that a device touches, beside the plan.

#include "cuda/plan_is_used.hpp"

#include <string>

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("planned bytes are the bytes that are touched") {
  plan_is_used<small>();
  plan_is_used<small, ct::accumulate<3>, ct::checkpoint::every<2>>();
}

TEST_CASE("explain names the dimensions that slow tensor cores down") {
  auto const text = ct::explanation<ct::trainer<small, device_policy>>();
  CHECK(text.find("dimensions that slow tensor cores down\n") != std::string::npos);
  CHECK(text.find("is not a multiple of 8 (next: ") != std::string::npos);
}
