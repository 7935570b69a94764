// Op by op: every node of a GPT runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

// Six heads of queries that share two of keys and values.
struct grouped_model {
  bool causal;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 31, .width = 30});
    auto const y = ct::self_attention(x, {.heads = 6, .causal = causal, .key_value_heads = 2});
    return ct::linear("head", y, 31);
  }
};
template <bool causal>
using grouped = ct::task<grouped_model{causal}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 19}>;

} // namespace

TEST_CASE("every node of attention with shared keys and values, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<grouped<true>>(seen);
  check_nodes<grouped<false>, ct::precision::fp64>(seen);
  check_nodes<grouped<true>, ct::precision::bf16>(seen);
  CHECK(seen["attention_gradient"] > 0);
}

TEST_CASE("every node of a GPT, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<gpt<2, 2, 24, 67, 17, 3>>(seen);
  check_nodes<gpt<2, 3, 9, 300, 33, 2>, ct::precision::fp64, ct::accumulate<2>>(seen);
  check_nodes<gpt<3, 1, 16, 31, 70, 1>, ct::precision::bf16, ct::accumulate<3>, ct::checkpoint::every<2>>(seen);
  check_nodes<gpt<2, 2, 24, 31, 17, 2>, ct::precision::fp16>(seen);
  check_nodes<gpt<1, 2, 270, 11, 5, 2>, ct::optimizer::nesterov>(seen);
  check_nodes<gpt<1, 2, 20, 31, 13, 3>, chunks_of_rows, ct::accumulate<2>>(seen);
  check_nodes<gpt<1, 2, 20, 31, 13, 3>, chunks_of_rows, ct::precision::bf16>(seen);
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
                           "valid_first",
                           "gather_rows",
                           "scatter_rows",
                           "gradient_norm_squared",
                           "clip_coefficient",
                           "update"}) {
    CAPTURE(name);
    CHECK(seen[name] > 0);
  }
}
