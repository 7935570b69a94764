// Op by op: every node of training runs with Muon runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/root_mean_squares.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node with Muon, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<mlp<37, 53, 19>, ct::optimizer::muon<ct::optimizer::sgd>>(seen);
  check_nodes<mlp<24, 8, 5>, ct::optimizer::muon<ct::optimizer::momentum, 2>>(seen);
  CHECK(seen["muon"] > 0);
  CHECK(seen["update"] > 0);
}
