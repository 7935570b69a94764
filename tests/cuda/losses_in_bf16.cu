// The losses of a training in bf16 beside the CPU's.

#include "cuda/twenty_losses.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("twenty losses in bf16 as on the CPU") {
  twenty_losses<ct::optimizer::adamw, ct::precision::bf16, ct::checkpoint::every<2>>(1e-2);
}
