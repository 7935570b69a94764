#include "cuda/ops_of_gpt.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a GPT in bf16, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<3, 1, 16, 31, 70, 1>, ct::precision::bf16, ct::accumulate<3>, ct::checkpoint::every<2>>(seen);
  check_ops_of_gpt(seen, {"cast"});
}
