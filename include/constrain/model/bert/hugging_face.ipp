#pragma once

#include "constrain/model/bert/hugging_face.hpp"

#include "constrain/io/json_writer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE weight_format weight_format_of<bert>::make(bert const& m) {
  io::json_writer json;
  bool const classifies = m.classes != 0;
  json.object().array("architectures").element(classifies ? "BertForSequenceClassification" : "BertForMaskedLM").end();
  json.member("model_type", "bert");
  json.member("num_hidden_layers", m.layers).member("num_attention_heads", m.heads).member("hidden_size", m.width);
  json.member("intermediate_size", m.hidden).member("vocab_size", m.vocabulary);
  json.member("max_position_embeddings", m.context).member("type_vocab_size", m.types);
  json.member("hidden_act", "gelu").member("layer_norm_eps", m.epsilon);
  json.member("position_embedding_type", "absolute").member("tie_word_embeddings", true);
  if (classifies) json.member("num_labels", m.classes); // Transformers reads it, but writes the names of the classes
  json.end();
  return {.names = names,
          .configuration = json.text(),
          .prefix = "bert.",
          .ignored_suffixes = std::span(ignored_suffixes).first(classifies ? 1 : 7),
          .required_keys = required_keys};
}

} // namespace constrain
