// Op by op: every node of a model with long rows, and of few tokens that occur often, runs on the device and on the
// CPU. The kernels choose by the length of a row whether registers hold it.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

struct long_rows {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 3, .width = 600});
    auto const y = x + ct::dropout(ct::linear("up_1", ct::linear("down_1", ct::layer_norm("norm_1", x), 8), 600));
    auto const z = ct::linear("up_2", ct::linear("down_2", ct::layer_norm("norm_2", y), 8), 1000);
    auto const last = ct::linear("up_3", ct::linear("down_3", ct::layer_norm("norm_3", z), 8), 2056);
    return ct::linear("head", ct::mean(ct::layer_norm("norm_4", last), ct::axis::tokens), 5);
  }
};
using task = ct::task<long_rows{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 70}>;

} // namespace

TEST_CASE("every node with long rows, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<task, ct::optimizer::sgd>(seen);
  check_nodes<task, ct::precision::bf16, ct::optimizer::sgd>(seen);
  for (auto const* name : {"layer_norm", "layer_norm_gradient", "layer_norm_gradient_add", "dropout_add_layer_norm",
                           "embedding_gradient"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}
