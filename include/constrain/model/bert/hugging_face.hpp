#pragma once

#include "constrain/model/bert/bert.hpp"
#include "constrain/model/weight_format.hpp"

#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The weights of Hugging Face Transformers' BertForMaskedLM or, with classes, BertForSequenceClassification: every
/// parameter of a block is one tensor per block, and the head of masked language modeling is tied to the token
/// embedding.
template <> struct weight_format_of<bert> {
  /// For each parameter that a model can have: its name in this library, and its name in files.
  static constexpr stored_name names[] = {
      {"token.weight", "bert.embeddings.word_embeddings.weight"},
      {"position.weight", "bert.embeddings.position_embeddings.weight"},
      {"type.weight", "bert.embeddings.token_type_embeddings.weight"},
      {"norm.weight", "bert.embeddings.LayerNorm.weight"},
      {"norm.bias", "bert.embeddings.LayerNorm.bias"},
      {"block.query.weight", "bert.encoder.layer.*.attention.self.query.weight"},
      {"block.query.bias", "bert.encoder.layer.*.attention.self.query.bias"},
      {"block.key.weight", "bert.encoder.layer.*.attention.self.key.weight"},
      {"block.key.bias", "bert.encoder.layer.*.attention.self.key.bias"},
      {"block.value.weight", "bert.encoder.layer.*.attention.self.value.weight"},
      {"block.value.bias", "bert.encoder.layer.*.attention.self.value.bias"},
      {"block.projection.weight", "bert.encoder.layer.*.attention.output.dense.weight"},
      {"block.projection.bias", "bert.encoder.layer.*.attention.output.dense.bias"},
      {"block.norm_1.weight", "bert.encoder.layer.*.attention.output.LayerNorm.weight"},
      {"block.norm_1.bias", "bert.encoder.layer.*.attention.output.LayerNorm.bias"},
      {"block.up.weight", "bert.encoder.layer.*.intermediate.dense.weight"},
      {"block.up.bias", "bert.encoder.layer.*.intermediate.dense.bias"},
      {"block.down.weight", "bert.encoder.layer.*.output.dense.weight"},
      {"block.down.bias", "bert.encoder.layer.*.output.dense.bias"},
      {"block.norm_2.weight", "bert.encoder.layer.*.output.LayerNorm.weight"},
      {"block.norm_2.bias", "bert.encoder.layer.*.output.LayerNorm.bias"},
      {"pooler.weight", "bert.pooler.dense.weight"},
      {"pooler.bias", "bert.pooler.dense.bias"},
      {"head.weight", "classifier.weight"},
      {"head.bias", "classifier.bias"},
      {"transform.weight", "cls.predictions.transform.dense.weight"},
      {"transform.bias", "cls.predictions.transform.dense.bias"},
      {"head_norm.weight", "cls.predictions.transform.LayerNorm.weight"},
      {"head_norm.bias", "cls.predictions.transform.LayerNorm.bias"},
      {"token.bias", "cls.predictions.bias"},
  };
  /// Some published checkpoints, such as bert-base-uncased, have the suffixes of Google's code.
  static constexpr other_suffix other_suffixes[] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                                    {"LayerNorm.bias", "LayerNorm.beta"}};
  /// Suffixes of the names of tensors that the model does not need. The first suffix is for every model; the others are
  /// for masked language modeling: copies of tied tensors, and the pooler and the head of next-sentence prediction,
  /// which many published checkpoints have.
  static constexpr std::string_view ignored_suffixes[] = {
      ".position_ids",     "cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "pooler.dense.weight",
      "pooler.dense.bias", "cls.seq_relationship.weight",    "cls.seq_relationship.bias"};

  /// Tied tensors that files may store a second time: the matrix of the head of masked language modeling, which is the
  /// token embedding, and the head's bias.
  static constexpr stored_copy copies[] = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                                           {"cls.predictions.decoder.bias", "cls.predictions.bias"}};

  /// Keys that a config.json, or the result of `normalize`, must have. Transformers replaces a missing key with a
  /// default, which may be wrong for the model.
  static constexpr std::string_view required_keys[] = {"num_hidden_layers", "num_attention_heads",
                                                       "hidden_size",       "intermediate_size",
                                                       "vocab_size",        "max_position_embeddings"};

  /// Keys that describe only the head.
  static constexpr std::string_view head_keys[] = {"num_labels"};

  /// Keys whose values are compared only in the form that `normalize` returns.
  static constexpr std::string_view normalized_keys[] = {"hidden_act"};

  /// The format for one model, with the text of the model's config.json.
  [[gnu::cold]] static weight_format make(bert const& m);
  /// The values of keys that may be missing in a config.json, with Transformers' default for each missing key; see
  /// `weight_format::normalize`. The number of classes is the size of id2label or, without it, num_labels; it has no
  /// default here, because the config.json of a model without a classifier has neither, and the shape of the head shows
  /// the number. The activation "gelu_python" becomes "gelu", the same function. Throws `error` if one of these values
  /// has the wrong type.
  [[gnu::cold]] static std::string normalize(io::json const& configuration);
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/model/bert/hugging_face.ipp"
#endif
