// Op by op: every node of a model with the other ops runs on the device and on the CPU.

#include "cuda/ops_of_classifier.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a classifier, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<classifier, ct::optimizer::sgd, ct::fusion::none>(seen);
  check_nodes<classifier, ct::precision::bf16, ct::optimizer::momentum>(seen);
  check_ops_of_classifier(seen, {"dropout", "regularized_cross_entropy", "regularized_cross_entropy_gradient"});
}
