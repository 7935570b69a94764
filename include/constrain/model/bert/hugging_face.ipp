#pragma once

#include "constrain/model/bert/hugging_face.hpp"

#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"

#include <cstdint>
#include <optional>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string weight_format_of<bert>::normalize(io::json const& configuration) {
  auto const member = [&](std::string_view name) { return configuration.value(name); };
  auto const types = member("type_vocab_size"), activation = member("hidden_act"), epsilon = member("layer_norm_eps");
  auto const position_type = member("position_embedding_type"), tied = member("tie_word_embeddings");
  auto const id2label = member("id2label"), num_labels = member("num_labels");
  std::int64_t const label_count = num_labels ? num_labels->int64() : 0;
  io::json_writer json;
  json.object().member("type_vocab_size", types ? types->int64() : 2);
  json.member("hidden_act", !activation || activation->string() == "gelu_python" ? "gelu" : activation->string());
  json.member("layer_norm_eps", epsilon ? epsilon->real() : 1e-12);
  json.member("position_embedding_type", position_type ? position_type->string() : "absolute");
  json.member("tie_word_embeddings", !tied || tied->boolean());
  for (auto const* name : {"is_decoder", "add_cross_attention", "is_causal"}) {
    auto const x = member(name);
    json.member(name, x && x->boolean());
  }
  if (id2label || num_labels)
    json.member("num_labels", id2label ? static_cast<std::int64_t>(id2label->size()) : label_count);
  json.end();
  return json.text();
}

[[gnu::cold]] CONSTRAIN_INLINE weight_format weight_format_of<bert>::make(bert const& m) {
  io::json_writer json(io::json_reals::with_point), normalized; // Transformers 5 refuses 1 where it expects a float
  bool const classifies = m.classes != 0;
  json.object().array("architectures").element(classifies ? "BertForSequenceClassification" : "BertForMaskedLM").end();
  json.member("model_type", "bert");
  json.member("num_hidden_layers", m.layers).member("num_attention_heads", m.heads).member("hidden_size", m.width);
  json.member("intermediate_size", m.hidden).member("vocab_size", m.vocabulary);
  json.member("max_position_embeddings", m.context).member("type_vocab_size", m.types);
  json.member("hidden_act", "gelu").member("layer_norm_eps", m.epsilon);
  normalized.object().member("type_vocab_size", m.types).member("hidden_act", "gelu");
  normalized.member("layer_norm_eps", m.epsilon).member("position_embedding_type", "absolute");
  for (auto const* name : {"is_decoder", "add_cross_attention", "is_causal"}) normalized.member(name, false);
  for (auto* const out : {&json, &normalized}) {
    if (classifies) out->member("num_labels", m.classes);
    else out->member("tie_word_embeddings", true);
    out->end();
  }
  return {.names = names,
          .configuration = json.text(),
          .prefix = "bert.",
          .ignored_suffixes = std::span(ignored_suffixes).first(classifies ? 1 : 7),
          .required_keys = required_keys,
          .normalize = &normalize,
          .normalized = normalized.text(),
          .other_suffixes = other_suffixes,
          .copies = std::span(copies).first(classifies ? 0 : 2),
          .head_keys = head_keys,
          .normalized_keys = normalized_keys};
}

} // namespace constrain
