// Op by op: every node of attention with shared keys and values runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/grouped.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of attention with shared keys and values, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<grouped<true>, ct::precision::bf16>(seen);
  check_nodes<grouped<true>, ct::attention::reference>(seen);
  CHECK(seen["flash_attention_gradient"] > 0);
  CHECK(seen["attention_gradient"] > 0);
}
