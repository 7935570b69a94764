// Op by op: every node of a model with RMS normalization and the focal loss runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/root_mean_squares.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node with RMS normalization and the focal loss, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<focal<37, 5, 4, 19>, ct::optimizer::lion>(seen);
  check_nodes<focal<272, 24, 1, 43>, ct::precision::bf16, ct::optimizer::by_role<ct::optimizer::lion>>(seen);
  for (auto const* name : {"rms_norm", "rms_norm_gradient", "focal_loss", "focal_loss_gradient"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}
