#pragma once

#include "constrain/model/gpt2/hugging_face.hpp"

#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string weight_format_of<gpt2>::normalize(io::json const& configuration) {
  auto const causal = configuration.find("is_causal"); // in Transformers 5, null means false
  io::json_writer json;
  json.object().member("is_causal", !causal || (!causal->is_null() && causal->boolean()));
  if (auto const activation = configuration.value("activation_function")) {
    auto const name = activation->string();
    bool const is_alias_of_gelu_new =
        name == "gelu_pytorch_tanh" || name == "gelu_python_tanh" || name == "gelu_fast" || name == "gelu_accurate";
    json.member("activation_function", is_alias_of_gelu_new ? "gelu_new" : name);
  }
  // If a file has both names of a size, Transformers reads the first of the pair.
  constexpr char const* other_names[][2] = {{"num_hidden_layers", "n_layer"},
                                            {"num_attention_heads", "n_head"},
                                            {"hidden_size", "n_embd"},
                                            {"max_position_embeddings", "n_positions"}};
  for (auto const& [other, name] : other_names) {
    auto const first = configuration.value(other), size = first ? first : configuration.value(name);
    if (size) json.member(name, size->int64());
  }
  if (auto const hidden = configuration.value("n_inner")) json.member("n_inner", hidden->int64());
  json.end();
  return json.text();
}

[[gnu::cold]] CONSTRAIN_INLINE weight_format weight_format_of<gpt2>::make(gpt2 const& m) {
  io::json_writer json, normalized;
  json.object().array("architectures").element("GPT2LMHeadModel").end().member("model_type", "gpt2");
  normalized.object();
  for (auto* const out : {&json, &normalized}) {
    out->member("n_layer", m.layers).member("n_head", m.heads).member("n_embd", m.width);
    out->member("n_positions", m.context).member("n_inner", 4 * m.width).member("activation_function", "gelu_new");
  }
  normalized.member("is_causal", true).end();
  json.member("vocab_size", m.vocabulary).member("layer_norm_epsilon", 1e-5);
  json.member("scale_attn_weights", true).member("scale_attn_by_inverse_layer_idx", false);
  json.member("tie_word_embeddings", true);
  if (m.vocabulary <= 50256) // the vocabulary lacks the end-of-text token, id 50256
    json.member("bos_token_id", nullptr).member("eos_token_id", nullptr);
  json.end();
  return {.names = names,
          .configuration = json.text(),
          .prefix = "transformer.",
          .ignored_suffixes = ignored_suffixes,
          .required_keys = required_keys,
          .normalize = &normalize,
          .normalized = normalized.text(),
          .copies = copies,
          .normalized_keys = normalized_keys};
}

} // namespace constrain
