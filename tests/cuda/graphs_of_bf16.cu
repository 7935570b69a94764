// A mixed-precision trainer whose launches are recorded once and replayed.

#include "cuda/graph_is_eager.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("a graph is the eager run in bf16, with accumulation and checkpointing, bit for bit") {
  graph_is_eager<ct::precision::bf16, ct::accumulate<2>, ct::checkpoint::every<1>>();
}
