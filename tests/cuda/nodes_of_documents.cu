// Op by op: every node of models of packed documents runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/masked_models.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of attention in documents, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<documents<6, 0, true, 37>, ct::attention::reference, ct::optimizer::sgd>(seen);
  CHECK(seen["attention"] > 0);
  CHECK(seen["attention_gradient"] > 0);
}

TEST_CASE("every node of flash attention in documents, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<documents<8, 0, true, 143>, ct::precision::bf16, ct::optimizer::sgd>(seen);
  CHECK(seen["flash_attention"] > 0);
  CHECK(seen["flash_attention_gradient"] > 0);
  CHECK(seen["rotary_embedding"] > 0);
}
