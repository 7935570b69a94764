// The losses of a training in TF32 beside the CPU's.

#include "cuda/twenty_losses.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("twenty losses in TF32 as on the CPU") { twenty_losses<ct::optimizer::adamw, ct::precision::tf32>(2e-4); }
