#pragma once

#include "constrain/layer/apply.hpp"
#include "constrain/layer/repeat.hpp"
#include "constrain/model/port_list.hpp"
#include "constrain/op/add/add.hpp"
#include "constrain/op/attention/attention.hpp"
#include "constrain/op/dropout/dropout.hpp"
#include "constrain/op/embedding/embedding.hpp"
#include "constrain/op/gelu/gelu.hpp"
#include "constrain/op/layer_norm/layer_norm.hpp"
#include "constrain/op/linear/linear.hpp"
#include "constrain/op/position_embedding/position_embedding.hpp"

#include <span>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// 1 / sqrt(n) by Newton's method, because std::sqrt is not constexpr; 1 if n is below 1. The 60 iterations converge
/// for n up to 2^100.
constexpr double inverse_square_root(double n) {
  if (n < 1) return 1;
  double root = n;
  for (int i = 0; i < 60; ++i) root = 0.5 * (root + n / root);
  return 1 / root;
}

} // namespace detail

/// Causal self-attention as in GPT-2, with one matmul for queries, keys and values, and dropout on the output:
/// x [sequences, tokens, width] -> the same shape.
struct gpt2_attention {
  int heads;                // attention heads; their number must divide the width
  double projection_stddev; // standard deviation of the initial weights of "projection"

  /// The layer's output. `positions`: the position of each token in its document [sequences, tokens]; null: a sequence
  /// is one document.
  constexpr value operator()(value x, value const* positions = nullptr) const {
    auto const width = std::int64_t{x.features()};
    auto const qkv = linear("qkv", x, 3 * width, {.stddev = 0.02, .parts = {width, width, width}});
    auto const y = positions == nullptr ? self_attention(qkv, {.heads = heads})
                                        : self_attention(qkv, *positions, {.heads = heads, .documents = true});
    return dropout(linear("projection", y, x.features(), {.stddev = projection_stddev}));
  }
};

/// The feed-forward layer of GPT-2, with 4 * width hidden features, the tanh approximation of GELU, and dropout on the
/// output: x [sequences, tokens, width] -> the same shape.
struct gpt2_mlp {
  double projection_stddev; // standard deviation of the initial weights of "down"

  /// The layer's output.
  constexpr value operator()(value x) const {
    auto const hidden = gelu_tanh(linear("up", x, std::int64_t{4} * x.features(), {.stddev = 0.02}));
    return dropout(linear("down", hidden, x.features(), {.stddev = projection_stddev}));
  }
};

/// GPT-2 (Radford et al. 2019): tokens [sequences, tokens] -> logits [sequences, tokens, vocabulary]. The model has
/// pre-norm blocks, a learned position embedding, and a head tied to the token embedding. Dropout is applied to the sum
/// of the embeddings and to the output of each attention and feed-forward layer; its probability is the setting
/// "dropout". Attention probabilities have no dropout. The default sizes are the 124M model's.
struct gpt2 {
  int layers = 12;        // transformer blocks
  int heads = 12;         // attention heads; their number must divide the width
  int width = 768;        // features of a token
  int vocabulary = 50257; // number of token ids: 0 to vocabulary - 1
  int context = 1024;     // maximum tokens of a sequence or, if packed, of a document
  bool packed = false;    // whether a sequence holds several documents (data::pack); then the positions are an input

  /// The inputs: tokens and, if packed, the positions of the tokens in their documents.
  constexpr std::span<port_spec const> inputs() const {
    return std::span(detail::tokens_and_positions).first(packed ? 2 : 1);
  }
  /// The logits of every token.
  constexpr value operator()(value tokens) const { return logits(tokens, nullptr); }
  /// The logits of every token of packed documents. `positions`: the position of each token in its document [sequences,
  /// tokens], below `context` and below the number of tokens of a sequence.
  constexpr value operator()(value tokens, value positions) const { return logits(tokens, &positions); }

private:
  /// The logits of every token. `positions`: as in `gpt2_attention`.
  constexpr value logits(value tokens, value const* positions) const {
    // The residual projections of deeper models have smaller initial weights (Radford et al. 2019, section 2.3).
    double const projection_stddev = 0.02 * detail::inverse_square_root(2.0 * layers);
    auto const table = parameter(tokens, "token.weight", shape(vocabulary, width), role::embedding, {.stddev = 0.02});
    auto x = embedding(table, tokens);
    x = positions == nullptr ? position_embedding("position", x, {.context = context})
                             : position_embedding("position", x, *positions, {.context = context});
    x = repeat("block", layers, dropout(x), [&](value h) {
      auto const attention = [&](value y) { return gpt2_attention{heads, projection_stddev}(y, positions); };
      h = h + apply("attention", attention, layer_norm("norm_1", h));
      return h + apply("mlp", gpt2_mlp{projection_stddev}, layer_norm("norm_2", h));
    });
    return linear(layer_norm("norm", x), table);
  }
};

/// GPT-2 small, 124M parameters.
inline constexpr gpt2 gpt2_small{};
/// GPT-2 medium, 355M parameters.
inline constexpr gpt2 gpt2_medium{.layers = 24, .heads = 16, .width = 1024};
/// GPT-2 large, 774M parameters.
inline constexpr gpt2 gpt2_large{.layers = 36, .heads = 20, .width = 1280};
/// GPT-2 XL, 1558M parameters.
inline constexpr gpt2 gpt2_xl{.layers = 48, .heads = 25, .width = 1600};

} // namespace constrain
