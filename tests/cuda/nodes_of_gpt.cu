// Op by op: every node of a GPT runs on the device and on the CPU.

#include "cuda/ops_of_gpt.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a GPT, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<2, 2, 24, 67, 17, 3>>(seen);
  check_nodes<gpt<1, 2, 270, 11, 5, 2>, ct::optimizer::nesterov, ct::fusion::none>(seen);
  check_ops_of_gpt(seen, {"elementwise_gradient", "cross_entropy_gradient", "constant"});
}
