// Op by op: every node of a GPT and of a model with shared keys and values runs in fp64 on the device and on the CPU.

#include "cuda/grouped.hpp"
#include "cuda/ops_of_gpt.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node in fp64, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<2, 3, 9, 300, 33, 2>, ct::precision::fp64, ct::accumulate<2>>(seen);
  check_nodes<grouped<false>, ct::precision::fp64>(seen);
  check_ops_of_gpt(seen);
}
