// Op by op: every node of training runs with Adafactor runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/root_mean_squares.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node with Adafactor, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<normed<37, 5, 19>, ct::optimizer::adafactor>(seen);
  check_nodes<normed<136, 24, 9>, ct::precision::bf16, ct::optimizer::adafactor_with_momentum>(seen);
  CHECK(seen["adafactor_factored"] > 0);
  CHECK(seen["adafactor_unfactored"] > 0);
}
