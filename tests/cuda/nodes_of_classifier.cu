// Op by op: every node of a model with the other ops runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a classifier, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<classifier, ct::optimizer::sgd>(seen);
  check_nodes<classifier, ct::precision::bf16, ct::optimizer::momentum>(seen);
  check_nodes<classifier, ct::precision::fp64>(seen);
  for (auto const* name : {"mean", "mean_gradient", "multiply", "add", "copy", "dropout", "elementwise",
                           "elementwise_gradient", "update"}) {
    CAPTURE(name);
    CHECK(seen[name] > 0);
  }
}
