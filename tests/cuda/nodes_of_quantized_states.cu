// Op by op: every node of a training run with 8-bit states runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::optimizer::everything;
using ct::optimizer::quantized;

TEST_CASE("every node with quantized states, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<3, 2, 26, 67, 17, 3>, quantized<ct::optimizer::adamw, everything>>(seen);
  check_nodes<gpt<2, 2, 32, 131, 9, 2>, ct::precision::bf16, quantized<ct::optimizer::momentum>>(seen);
  CHECK(seen["quantized_update"] > 0);
  CHECK(seen["update"] > 0);
}
