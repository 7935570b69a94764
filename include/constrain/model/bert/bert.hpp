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
#include "constrain/op/select_token/select_token.hpp"
#include "constrain/op/tanh/tanh.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// BERT (Devlin et al. 2019): tokens and token types, both [sequences, tokens], and the length of each sequence
/// [sequences] -> logits. Without `classes`, the model is for masked language modeling: the head is a linear layer with
/// GELU and layer normalization, then a linear layer with the table of the token embedding as its weight, and a bias ->
/// [sequences, tokens, vocabulary]. With `classes`, the model classifies texts or pairs of texts: the head is the
/// pooler (a linear layer with tanh on the first token), then a linear layer -> [sequences, classes].
///
/// The blocks are post-norm. Dropout follows the embeddings, the attention and the feed-forward layer of a block, and
/// the pooler, with the setting "dropout" as its probability; attention probabilities have no dropout. The default
/// sizes are BERT base's.
struct bert {
  int layers = 12;        // transformer blocks
  int heads = 12;         // attention heads; their number must divide the width
  int width = 768;        // features of a token
  int hidden = 3072;      // features inside the feed-forward layer
  int vocabulary = 30522; // number of token ids: 0 to vocabulary - 1
  int context = 512;      // maximum tokens of a sequence
  int types = 2;          // number of token types; 2: one for each text of a pair
  double epsilon = 1e-12; // added to the variance in layer normalization
  int classes = 0;        // number of classes; 0: masked language modeling

  /// The inputs: tokens, types and lengths.
  static constexpr port_spec inputs[] = {
      {.name = "tokens"}, {.name = "types"}, {.name = "lengths", .each = per::sequence}};

  /// The same model with a head for `n` classes; 0: masked language modeling.
  constexpr bert with_classes(int n) const {
    auto m = *this;
    m.classes = n;
    return m;
  }
  /// The logits. All inputs are i32. `tokens`: from 0 to `vocabulary` - 1. `types_of_tokens`: from 0 to `types` - 1.
  /// `lengths`: the number of tokens of each sequence, without padding; it may be 0. No token attends to the padding,
  /// which comes last.
  constexpr value operator()(value tokens, value types_of_tokens, value lengths) const {
    auto const table = parameter(tokens, "token.weight", shape(vocabulary, width), role::embedding, {.stddev = 0.02});
    auto const x = encoded(table, tokens, types_of_tokens, lengths);
    if (classes != 0) {
      auto const pooled = tanh(dense("pooler", select_token(x, 0), width));
      return dense("head", dropout(pooled), classes);
    }
    auto const y = normalized("head_norm", gelu(dense("transform", x, width)));
    auto const bias = parameter(tokens, "token.bias", shape(vocabulary), role::bias, {});
    return emit<op::linear>({y, table, bias}, {});
  }

private:
  /// A linear layer whose initial weights have BERT's standard deviation, 0.02.
  static constexpr value dense(char const* name, value x, std::int64_t features) {
    return linear(name, x, features, {.stddev = 0.02});
  }
  constexpr value normalized(char const* name, value x) const { return layer_norm(name, x, {.epsilon = epsilon}); }
  /// The encoder's output, [sequences, tokens, width]. `table`: the token embedding. The other arguments are the
  /// model's inputs.
  constexpr value encoded(value table, value tokens, value types_of_tokens, value lengths) const {
    auto const type_embedding = embedding("type", types_of_tokens, {.vocabulary = types, .width = width});
    auto const x = position_embedding("position", embedding(table, tokens) + type_embedding, {.context = context});
    return repeat("block", layers, dropout(normalized("norm", x)), [&](value h) {
      auto const q = dense("query", h, width), k = dense("key", h, width), v = dense("value", h, width);
      auto const attended = self_attention(q, k, v, lengths, {.heads = heads, .causal = false});
      h = normalized("norm_1", h + dropout(dense("projection", attended, width)));
      return normalized("norm_2", h + dropout(dense("down", gelu(dense("up", h, hidden)), width)));
    });
  }
};

/// BERT large.
inline constexpr bert bert_large{.layers = 24, .heads = 16, .width = 1024, .hidden = 4096};

} // namespace constrain
