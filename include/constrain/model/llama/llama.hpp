#pragma once

#include "constrain/layer/repeat.hpp"
#include "constrain/model/port_list.hpp"
#include "constrain/op/add/add.hpp"
#include "constrain/op/attention/attention.hpp"
#include "constrain/op/embedding/embedding.hpp"
#include "constrain/op/linear/linear.hpp"
#include "constrain/op/multiply/multiply.hpp"
#include "constrain/op/reshape/reshape.hpp"
#include "constrain/op/rms_norm/rms_norm.hpp"
#include "constrain/op/rotary_embedding/rotary_embedding.hpp"
#include "constrain/op/silu/silu.hpp"

#include <span>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Llama 3 (Llama Team 2024, "The Llama 3 Herd of Models"), and with other options Mistral, Qwen2 and Qwen3: tokens
/// [sequences, tokens] -> logits [sequences, tokens, vocabulary]. The model has pre-norm blocks with RMS normalization,
/// grouped-query attention, rotary position embeddings and a gated feed-forward layer (SwiGLU, Shazeer 2020). No layer
/// has dropout. The default sizes are Llama 3.2 1B's.
struct llama {
  int layers = 16;         // transformer blocks
  int heads = 32;          // query heads; without `head_width`, their number must divide the width
  int key_value_heads = 8; // key-value heads; their number must divide `heads`; 0: as many as `heads`
  int width = 2048;        // features of a token
  int hidden = 8192;       // features inside the feed-forward layer
  int vocabulary = 128256; // number of token ids: 0 to vocabulary - 1
  int context = 131072;    // maximum tokens of a sequence
  int head_width = 0;      // features of a head, an even number; 0: width / heads, which must be even too
  double epsilon = 1e-5;   // added to the mean square in RMS normalization
  bool tied = true;        // whether the output layer, the head, has the token embedding's weight
  bool biases = false;     // whether queries, keys and values have biases, as in Qwen2
  bool head_norms = false; // whether each head of queries and keys is normalized, as in Qwen3; not with `biases`
  // sliding window, as in Mistral (Jiang et al. 2023): a token attends to itself and the window - 1 tokens before it;
  // 0: no window; not with `biases` or `head_norms`
  int window = 0;
  // frequencies of the position embeddings; the `head_width` of these options is ignored
  rotary_options rotary = {.theta = 500000, .factor = 32, .original_context = 8192};
  bool packed = false; // whether a sequence holds several documents (data::pack); then the positions are an input

  /// Refused: sequences that are longer than the context.
  template <diagnosis d> struct sequence_longer_than_context {
    static_assert(d.ok(), "ct::llama: a sequence of `got` tokens is longer than .context, `expected` tokens; lower "
                          "micro_batch::tokens or raise .context");
  };

  /// Refused: without `head_width`, a width that is not a positive multiple of `heads`, or `heads` below 1.
  template <diagnosis d> struct heads_do_not_divide_the_width {
    static_assert(d.ok(), "ct::llama: .width is `expected`, but must be a positive multiple of .heads, `got`, which "
                          "must be at least 1; change one of them or, if both are at least 1, set .head_width");
  };
  /// Refused: with `head_width`, `heads` below 1.
  template <diagnosis d> struct heads_are_below_one {
    static_assert(d.ok(), "ct::llama: .heads, the number of query heads, is `got`; give `expected` or more");
  };
  /// Refused: a negative `key_value_heads`.
  template <diagnosis d> struct key_value_heads_are_negative {
    static_assert(d.ok(), "ct::llama: .key_value_heads is `got`; give 0 or more (0 means as many as .heads)");
  };
  /// Refused: a negative `head_width`.
  template <diagnosis d> struct head_width_is_negative {
    static_assert(d.ok(), "ct::llama: .head_width is `got`; give 0 or more (0 means .width / .heads)");
  };
  /// Refused: `biases` together with `head_norms`.
  template <diagnosis d> struct biases_with_head_norms {
    static_assert(
        d.ok(), "ct::llama: .biases and .head_norms are both set, but of the supported models (Llama, Mistral, Qwen2, "
                "Qwen3) none has both; set one of them to false");
  };

  /// Refused: a window together with `biases` or `head_norms`.
  template <diagnosis d> struct window_with_biases_or_head_norms {
    static_assert(d.ok(),
                  "ct::llama: .window is `got`, but .biases or .head_norms is set; of the supported models, only "
                  "Mistral has a window, and it has no biases or head norms; set .window to 0, or .biases and "
                  ".head_norms to false");
  };

  /// Features of a head: `head_width` if it is not 0; otherwise width / heads, or 0 if `heads` is below 1 or does not
  /// divide the width.
  constexpr int features_of_head() const {
    return head_width != 0 ? head_width : heads < 1 || width % heads != 0 ? 0 : width / heads;
  }
  /// The inputs: tokens and, if packed, the positions of the tokens in their documents.
  constexpr std::span<port_spec const> inputs() const {
    return std::span(detail::tokens_and_positions).first(packed ? 2 : 1);
  }
  /// The number of key-value heads: `key_value_heads` or, if it is 0, `heads`.
  constexpr int key_value_head_count() const { return key_value_heads != 0 ? key_value_heads : heads; }
  /// The logits of every token.
  constexpr value operator()(value tokens) const { return logits(tokens, nullptr); }
  /// The logits of every token of packed documents. `positions`: the position of each token in its document [sequences,
  /// tokens], below the number of tokens of a sequence.
  constexpr value operator()(value tokens, value positions) const { return logits(tokens, &positions); }

private:
  /// The logits of every token. `positions`: the position of each token in its document [sequences, tokens]; null: a
  /// sequence is one document.
  constexpr value logits(value tokens, value const* positions) const {
    auto& program = tokens.owner().program;
    if (auto const s = tokens.shape(); s.rank == 2 && s.extent[1] > context)
      program.fail(diagnosis_with<sequence_longer_than_context>(0, 0, context, s.extent[1]));
    if (head_width < 0) program.fail(diagnosis_with<head_width_is_negative>(0, 0, 0, head_width));
    if (head_width > 0 && heads < 1) program.fail(diagnosis_with<heads_are_below_one>(0, 0, 1, heads));
    if (key_value_heads < 0) program.fail(diagnosis_with<key_value_heads_are_negative>(0, 0, 0, key_value_heads));
    if (features_of_head() < 1) program.fail(diagnosis_with<heads_do_not_divide_the_width>(0, 0, width, heads));
    if (biases && head_norms) program.fail(diagnosis_with<biases_with_head_norms>());
    if (window != 0 && (biases || head_norms))
      program.fail(diagnosis_with<window_with_biases_or_head_norms>(0, 0, 0, window));
    if (!program.failure.ok()) return tokens;
    auto const embeddings =
        parameter(tokens, "token.weight", shape(vocabulary, width), role::embedding, {.stddev = 0.02});
    auto x = embedding(embeddings, tokens);
    auto rotary_of_heads = rotary;
    rotary_of_heads.head_width = features_of_head();
    auto const rotations = rotary_table(x, rotary_of_heads);
    x = repeat("block", layers, x, [&](value h) {
      h = h + attention(rms_norm("norm_1", h, {.epsilon = epsilon}), rotations, positions);
      return h + feed_forward(rms_norm("norm_2", h, {.epsilon = epsilon}));
    });
    x = rms_norm("norm", x, {.epsilon = epsilon});
    if (tied) return linear(x, embeddings);
    return linear("head", x, vocabulary, {.bias = false, .stddev = 0.02, .role = role::head});
  }
  /// A linear layer without bias.
  static constexpr value without_bias(char const* name, value x, std::int64_t features) {
    return linear(name, x, features, {.bias = false, .stddev = 0.02});
  }
  /// Queries or keys x [sequences, tokens, heads * head width] with RMS normalization of each head -> the same shape.
  constexpr value normalized(char const* name, value x) const {
    auto const s = x.shape();
    auto const per_head = shape(s.extent[0], s.extent[1] * s.extent[2] / features_of_head(), features_of_head());
    return reshape(rms_norm(name, reshape(x, per_head), {.epsilon = epsilon}), s);
  }
  /// Grouped-query attention with rotary position embeddings: x [sequences, tokens, width] -> the same shape.
  /// `rotations`: the output of `rotary_table`. `positions`: as in `logits`.
  constexpr value attention(value x, value rotations, value const* positions) const {
    linear_options const o{.bias = biases, .stddev = 0.02};
    std::int64_t const query_features = std::int64_t{heads} * features_of_head();
    std::int64_t const key_features = std::int64_t{key_value_head_count()} * features_of_head();
    auto q = linear("query", x, query_features, o), k = linear("key", x, key_features, o);
    auto const v = linear("value", x, key_features, o);
    if (head_norms) q = normalized("query_norm", q), k = normalized("key_norm", k);
    attention_options const options{
        .heads = heads, .key_value_heads = key_value_head_count(), .window = window, .documents = positions != nullptr};
    if (positions == nullptr)
      return without_bias("projection",
                          self_attention(rotary_embedding(q, rotations), rotary_embedding(k, rotations), v, options),
                          width);
    q = rotary_embedding(q, rotations, *positions), k = rotary_embedding(k, rotations, *positions);
    return without_bias("projection", self_attention(q, k, v, *positions, options), width);
  }
  /// SwiGLU: x [sequences, tokens, width] -> the same shape.
  constexpr value feed_forward(value x) const {
    return without_bias("down", silu(without_bias("gate", x, hidden)) * without_bias("up", x, hidden), width);
  }
};

/// Llama 3 8B.
inline constexpr llama llama3_8b{
    .layers = 32, .width = 4096, .hidden = 14336, .context = 8192, .tied = false, .rotary = {.theta = 500000}};
/// Llama 3.1 8B: Llama 3 8B for longer sequences.
inline constexpr llama llama3_1_8b{.layers = 32,
                                   .width = 4096,
                                   .hidden = 14336,
                                   .tied = false,
                                   .rotary = {.theta = 500000, .factor = 8, .original_context = 8192}};
/// Llama 3.2 1B.
inline constexpr llama llama3_2_1b{};
/// Mistral 7B v0.1. Later versions have theta 1e6 and no window; from v0.3 on, the vocabulary is 32768.
inline constexpr llama mistral_7b{.layers = 32,
                                  .width = 4096,
                                  .hidden = 14336,
                                  .vocabulary = 32000,
                                  .context = 32768,
                                  .tied = false,
                                  .window = 4096,
                                  .rotary = {.theta = 10000}};
/// Qwen2.5 7B, the base model; the context of Qwen2.5 7B Instruct is 32768.
inline constexpr llama qwen2_5_7b{.layers = 28,
                                  .heads = 28,
                                  .key_value_heads = 4,
                                  .width = 3584,
                                  .hidden = 18944,
                                  .vocabulary = 152064,
                                  .epsilon = 1e-6,
                                  .tied = false,
                                  .biases = true,
                                  .rotary = {.theta = 1e6}};
/// Qwen3 8B; the context of Qwen3 8B Base is 32768.
inline constexpr llama qwen3_8b{.layers = 36,
                                .width = 4096,
                                .hidden = 12288,
                                .vocabulary = 151936,
                                .context = 40960,
                                .epsilon = 1e-6,
                                .tied = false,
                                .head_norms = true,
                                .rotary = {.theta = 1e6}};

} // namespace constrain
