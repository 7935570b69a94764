// The bytes that a device touches, beside the plan.

#include "cuda/plan_is_used.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("planned bytes are the bytes that are touched") {
  plan_is_used<small>();
  plan_is_used<small, ct::accumulate<3>, ct::checkpoint::every<2>>();
}
