// Op by op: every node of models with long rows, of few tokens that occur often, and of many classes runs on the device
// and on the CPU. The kernels choose by the length of a row whether registers hold it.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <int width> struct long_rows {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 3, .width = width});
    auto const y = ct::repeat("block", 2, x, [&](ct::value z) {
      auto const h = z + ct::dropout(ct::linear("up_1", ct::linear("down_1", ct::layer_norm("norm_1", z), 8), width));
      return h + ct::linear("up_2", ct::linear("down_2", ct::layer_norm("norm_2", h), 8), width);
    });
    return ct::linear("head", ct::mean(ct::layer_norm("norm", y), ct::axis::tokens), 5);
  }
};
template <int width>
using task_of = ct::task<long_rows<width>{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 70}>;

/// Has more positions than the gradient of the embedding compares at a time.
struct many_positions {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 300, .width = 9});
    return ct::linear("head", ct::mean(x, ct::axis::tokens), 5);
  }
};

template <class... policies> void long_rows_agree() {
  std::map<std::string, int> seen;
  check_nodes<task_of<600>, policies..., ct::optimizer::sgd>(seen);
  check_nodes<task_of<1000>, policies..., ct::optimizer::sgd>(seen);
  check_nodes<task_of<2056>, policies..., ct::optimizer::sgd>(seen);
  for (auto const* name : {"layer_norm", "layer_norm_gradient", "layer_norm_gradient_add", "dropout_add_layer_norm",
                           "embedding_gradient"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}

} // namespace

TEST_CASE("every node with long rows, as on the CPU") { long_rows_agree<>(); }
TEST_CASE("every node with long rows in 16 bits, as on the CPU") { long_rows_agree<ct::precision::bf16>(); }
TEST_CASE("the gradient of the embedding of many positions, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<ct::task<many_positions{}, ct::classification, ct::micro_batch{.sequences = 4, .tokens = 1100}>,
              ct::optimizer::sgd>(seen);
  CHECK(seen["embedding_gradient"] > 0);
}
TEST_CASE("every node of the loss of many classes, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<1, 2, 16, 4208, 9, 1>, ct::precision::bf16, ct::optimizer::sgd>(seen);
  CHECK(seen["cross_entropy_and_gradient"] > 0);
}
