// The bytes that a device touches in fp16, beside the plan.

#include "cuda/plan_is_used.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("planned bytes are the bytes that are touched, in fp16") { plan_is_used<classifier, ct::precision::fp16>(); }
