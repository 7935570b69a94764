// Op by op: every node of a GPT runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("every node of a GPT, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<2, 2, 24, 67, 17, 3>>(seen);
  check_nodes<gpt<2, 3, 9, 300, 33, 2>, ct::precision::fp64, ct::accumulate<2>>(seen);
  check_nodes<gpt<3, 1, 16, 31, 70, 1>, ct::precision::bf16, ct::accumulate<3>, ct::checkpoint::every<2>>(seen);
  check_nodes<gpt<2, 2, 24, 31, 17, 2>, ct::precision::fp16>(seen);
  check_nodes<gpt<1, 2, 270, 11, 5, 2>, ct::optimizer::nesterov>(seen);
  for (auto const* name : {"linear",
                           "linear_input_gradient",
                           "linear_weight_gradient",
                           "linear_bias_gradient",
                           "attention",
                           "attention_gradient",
                           "layer_norm",
                           "layer_norm_gradient",
                           "embedding",
                           "embedding_gradient",
                           "position_embedding",
                           "position_embedding_gradient",
                           "elementwise",
                           "elementwise_gradient",
                           "cross_entropy",
                           "cross_entropy_gradient",
                           "correct_predictions",
                           "add",
                           "cast",
                           "constant",
                           "gradient_norm_squared",
                           "clip_coefficient",
                           "update"}) {
    CAPTURE(name);
    CHECK(seen[name] > 0);
  }
}
