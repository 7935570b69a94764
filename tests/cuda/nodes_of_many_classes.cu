// Op by op: every node of models of many classes and of many positions runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Has more positions than the gradient of the embedding compares at a time.
struct many_positions {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 300, .width = 9});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 5);
  }
};

/// Has rows of logits that the kernel gives to blocks of more threads.
struct many_classes {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 4208, .width = 8}), 4208);
  }
};

} // namespace

TEST_CASE("the gradient of the embedding of many positions, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<ct::task<many_positions{}, ct::classification, ct::micro_batch{.sequences = 4, .tokens = 1100}>,
              ct::optimizer::sgd>(seen);
  CHECK(seen["embedding_gradient"] > 0);
}
TEST_CASE("every node of the loss of many classes, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<ct::task<many_classes{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 9}>,
              ct::precision::bf16, ct::optimizer::sgd>(seen);
  CHECK(seen["cross_entropy_and_gradient"] > 0);
}
