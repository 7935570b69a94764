// The losses of a training in fp64 beside the CPU's.

#include "cuda/twenty_losses.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("twenty losses in fp64 as on the CPU") {
  twenty_losses<ct::optimizer::adamw, ct::precision::fp64, ct::accumulate<2>>(1e-5);
}
