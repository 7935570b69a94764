// Op by op: every node of attention with shared keys and values runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"
#include "cuda/grouped.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of attention with shared keys and values, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<grouped<true>>(seen);
  check_nodes<grouped<true>, ct::precision::bf16>(seen);
  CHECK(seen["attention_gradient"] > 0);
}
