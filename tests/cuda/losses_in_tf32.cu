// The losses of a training in TF32 beside the CPU's.

#include "cuda/twenty_losses.hpp"

namespace ct = constrain;
using namespace constrain::test;

// The bound is one unit in the last place of TF32, 2^-10. The stand-in adds the products of a GEMM as the CPU does, and
// reaches 4e-6; on an H200, sums in another order round some elements of the next layer to other values: 2.5e-4.
TEST_CASE("twenty losses in TF32 as on the CPU") { twenty_losses<ct::optimizer::adamw, ct::precision::tf32>(0x1p-10); }
