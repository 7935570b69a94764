#include "cuda/ops_of_gpt.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a GPT in fp16, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<2, 2, 24, 31, 17, 2>, ct::precision::fp16>(seen);
  check_ops_of_gpt(seen, {"cast"});
}
