// The bytes that a device touches in 16 and in 64 bits, beside the plan.

#include "cuda/plan_is_used.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("planned bytes are the bytes that are touched, in bf16 and in fp64") {
  plan_is_used<small, ct::precision::bf16>();
  plan_is_used<classifier, ct::precision::fp64, ct::optimizer::sgd>();
}
