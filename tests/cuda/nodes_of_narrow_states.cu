// Op by op: every node of a GPT with weights and optimizer states in bf16 runs on the device and on the CPU.

#include "cuda/ops_of_gpt.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a GPT with weights and states in bf16, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<2, 2, 24, 31, 17, 2>, ct::precision::pure_bf16,
              ct::optimizer::states_in<ct::dtype::bf16, ct::optimizer::adamw>>(seen);
  check_ops_of_gpt(seen, {"compensated_sum", "rounding_error"});
}
