// Op by op: every node of models with a sliding window runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/masked_models.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of attention in windows, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<window<false>, ct::precision::fp64, ct::attention::reference, ct::optimizer::sgd>(seen);
  CHECK(seen["attention"] > 0);
  CHECK(seen["attention_gradient"] > 0);
}

TEST_CASE("every node of flash attention in windows, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<window<true>, ct::optimizer::sgd>(seen);
  CHECK(seen["flash_attention"] > 0);
  CHECK(seen["flash_attention_gradient"] > 0);
}
