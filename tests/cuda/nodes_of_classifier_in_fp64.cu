// Op by op: every node of a model with the other ops runs in fp64 on the device and on the CPU.

#include "cuda/ops_of_classifier.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a classifier in fp64, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<classifier, ct::precision::fp64>(seen);
  check_ops_of_classifier(seen);
}
