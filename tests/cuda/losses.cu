// The losses of a training in fp32 beside the CPU's.

#include "cuda/twenty_losses.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("twenty losses in fp32 as on the CPU") { twenty_losses<ct::optimizer::adamw>(1e-4); }
