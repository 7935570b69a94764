// Op by op: every node of models of padded sequences runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/padded.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of attention with lengths, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<padded<4, 5, false, 19>, ct::attention::reference, ct::optimizer::sgd>(seen);
  check_nodes<padded<2, 9, true, 37>, ct::precision::bf16, ct::attention::reference, ct::optimizer::sgd>(seen);
  CHECK(seen["attention"] > 0);
  CHECK(seen["attention_gradient"] > 0);
}
