// Op by op: every node of a model with rotary position embeddings runs on the device and on the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Attention with rotary position embeddings of heads [head_width]. Queries and keys are parts of one matmul's result.
template <int head_width> struct rotary_lm {
  constexpr ct::value operator()(ct::value tokens) const {
    constexpr int width = 4 * head_width;
    auto x = ct::embedding("token", tokens, {.vocabulary = 41, .width = width});
    auto const table = ct::rotary_table(
        x, {.head_width = head_width, .theta = 300, .factor = 4, .original_context = 64, .high_freq_factor = 3});
    x = ct::repeat("block", 2, x, [&](ct::value h) {
      auto const qkv = ct::linear("qkv", h, 2 * width);
      auto const q = ct::rotary_embedding(ct::slice(qkv, 2, 0, width), table);
      auto const k = ct::rotary_embedding(ct::slice(qkv, 2, width, 2 * head_width), table);
      auto const v = ct::slice(qkv, 2, width + 2 * head_width, 2 * head_width);
      return h + ct::self_attention(q, k, v, {.heads = 4, .key_value_heads = 2});
    });
    return ct::linear("head", x, 41);
  }
};
template <int head_width, int tokens>
using task = ct::task<rotary_lm<head_width>{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = tokens}>;

} // namespace

TEST_CASE("every node with rotary position embeddings, as on the CPU") {
  std::map<std::string, int> seen;
  // Pairs that no pack can hold.
  check_nodes<task<6, 7>, ct::optimizer::averaged<ct::optimizer::sgd>>(seen);
  // Packs.
  check_nodes<task<16, 33>, ct::precision::bf16, ct::optimizer::averaged<ct::optimizer::lion>>(seen);
  for (auto const* name : {"rotary_table", "rotary_embedding", "moving_average"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}
