// Op by op in fp64: every node of models with RMS normalization, the focal loss, Adafactor, Muon and 8-bit states runs
// on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/root_mean_squares.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of other optimizers in fp64, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<focal<14, 5, 4, 7>, ct::precision::fp64, ct::optimizer::adafactor_with_momentum>(seen);
  check_nodes<mlp<12, 21, 5>, ct::precision::fp64,
              ct::optimizer::muon<ct::optimizer::quantized<ct::optimizer::adamw, ct::optimizer::everything>>>(seen);
  for (auto const* name : {"rms_norm", "rms_norm_gradient", "focal_loss", "focal_loss_gradient", "adafactor_factored",
                           "adafactor_unfactored", "muon", "quantized_update"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}
