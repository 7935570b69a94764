// Op by op: every node of models of packed documents, and of models with a sliding window, runs on the device and on
// the CPU.

#include "cuda/check_nodes.hpp"

namespace ct = constrain;
using namespace constrain::test;

namespace {

/// Attention with rotary position embeddings, whose positions start anew with each document.
struct documents_model {
  int head_width, window;
  bool causal;
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "positions"}};
  constexpr ct::value operator()(ct::value tokens, ct::value positions) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 31, .width = 20});
    auto const angles = ct::rotary_table(x, {.head_width = head_width});
    auto const q = ct::rotary_embedding(ct::linear("query", x, 4 * head_width), angles, positions);
    auto const k = ct::rotary_embedding(ct::linear("key", x, 2 * head_width), angles, positions);
    auto const v = ct::linear("value", x, 2 * head_width);
    ct::attention_options const options{
        .heads = 4, .causal = causal, .key_value_heads = 2, .window = window, .documents = true};
    return ct::linear("head", ct::self_attention(q, k, v, positions, options), 31);
  }
};
template <int head_width, int window, bool causal, int tokens>
using documents = ct::task<documents_model{head_width, window, causal}, ct::causal_lm,
                           ct::micro_batch{.sequences = 3, .tokens = tokens}>;

/// Padded sequences. The window after the end of a sequence may hold only padding.
struct window_model {
  bool causal;
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto const qkv = ct::embedding("token", tokens, {.vocabulary = 31, .width = 30});
    return ct::linear("head", ct::self_attention(qkv, lengths, {.heads = 2, .causal = causal, .window = 4}), 31);
  }
};
template <bool causal>
using window = ct::task<window_model{causal}, ct::causal_lm, ct::micro_batch{.sequences = 5, .tokens = 37}>;

} // namespace

TEST_CASE("every node of attention in documents and windows, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<documents<6, 0, true, 37>, ct::attention::reference, ct::optimizer::sgd>(seen);
  check_nodes<documents<8, 9, false, 83>, ct::precision::bf16, ct::attention::reference, ct::optimizer::sgd>(seen);
  check_nodes<window<true>, ct::attention::reference, ct::optimizer::sgd>(seen);
  check_nodes<window<false>, ct::precision::fp64, ct::attention::reference, ct::optimizer::sgd>(seen);
  CHECK(seen["attention"] > 0);
  CHECK(seen["attention_gradient"] > 0);
}

TEST_CASE("every node of flash attention in documents and windows, as on the CPU") {
  std::map<std::string, int> seen;
  check_nodes<documents<8, 0, true, 143>, ct::precision::bf16, ct::optimizer::sgd>(seen);
  check_nodes<documents<6, 9, false, 83>, ct::optimizer::sgd>(seen);
  check_nodes<window<true>, ct::optimizer::sgd>(seen);
  CHECK(seen["flash_attention"] > 0);
  CHECK(seen["flash_attention_gradient"] > 0);
  CHECK(seen["rotary_embedding"] > 0);
}
