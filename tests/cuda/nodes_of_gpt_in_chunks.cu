// Op by op: every node of a GPT whose head and loss are in chunks of rows runs on the device and on the CPU.

#include "cuda/ops_of_gpt.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a GPT in chunks of rows, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<1, 2, 20, 31, 13, 3>, ct::fusion::all, ct::accumulate<2>>(seen);
  check_nodes<gpt<1, 2, 20, 31, 50, 6>, ct::fusion::all, ct::precision::bf16>(seen); // rows for several blocks
  check_ops_of_gpt(seen, {"cast", "valid_first", "gather_rows", "scatter_rows"});
}
