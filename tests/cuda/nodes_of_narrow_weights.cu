// Op by op: every node of a GPT with weights in bf16 and no masters runs on the device and on the CPU.

#include "cuda/ops_of_gpt.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a GPT with weights in bf16, as on the CPU") {
  using ct::optimizer::adamw;
  std::map<std::string, int> seen;
  check_nodes<gpt<3, 1, 16, 31, 70, 1>, ct::precision::pure_bf16, ct::optimizer::in_backward<adamw>,
              ct::checkpoint::every<2>>(seen);
  check_ops_of_gpt(seen, {"cast", "round_stochastically", "tensor_scale"});
}
