// Op by op, as in nodes_of_documents.cu and nodes_of_windows.cu: further masks, against the stand-in only.

#include "cuda/check_nodes.hpp"
#include "cuda/masked_models.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of attention in documents with a window, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<documents<8, 9, false, 83>, ct::precision::bf16, ct::attention::reference, ct::optimizer::sgd>(seen);
  check_nodes<window<true>, ct::attention::reference, ct::optimizer::sgd>(seen);
  // Rows of packs, which begin before a window does.
  check_nodes<documents<8, 9, false, 84>, ct::precision::bf16, ct::attention::reference, ct::optimizer::sgd>(seen);
  check_nodes<window<true, 36>, ct::attention::reference, ct::optimizer::sgd>(seen);
  check_nodes<window<false, 36>, ct::precision::fp64, ct::attention::reference, ct::optimizer::sgd>(seen);
  CHECK(seen["attention"] > 0);
  CHECK(seen["attention_gradient"] > 0);
}

TEST_CASE("every node of flash attention in documents with a window, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<documents<6, 9, false, 83>, ct::optimizer::sgd>(seen);
  CHECK(seen["flash_attention"] > 0);
  CHECK(seen["flash_attention_gradient"] > 0);
}
