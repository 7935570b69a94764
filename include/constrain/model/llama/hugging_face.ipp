#pragma once

#include "constrain/model/llama/hugging_face.hpp"

#include "constrain/io/json_writer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Writes the members of rope_parameters (Transformers 5) or rope_scaling (Transformers 4).
[[gnu::cold]] CONSTRAIN_INLINE void write_rope(io::json_writer& json, rotary_options const& o) {
  bool const scales = o.factor != 1;
  json.member("rope_type", !scales ? "default" : o.original_context == 0 ? "linear" : "llama3");
  if (scales) json.member("factor", o.factor);
  if (scales && o.original_context != 0) {
    json.member("original_max_position_embeddings", o.original_context);
    json.member("low_freq_factor", o.low_frequency).member("high_freq_factor", o.high_frequency);
  }
}

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE weight_format weight_format_of<llama>::make(llama const& m) {
  io::json_writer json;
  bool const is_qwen2 = m.biases && !m.head_norms;
  auto const* const name = m.head_norms ? "Qwen3ForCausalLM" : is_qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM";
  json.object().array("architectures").element(name).end();
  json.member("model_type", m.head_norms ? "qwen3" : is_qwen2 ? "qwen2" : "llama");
  json.member("num_hidden_layers", m.layers).member("num_attention_heads", m.heads);
  json.member("num_key_value_heads", m.key_value_heads).member("hidden_size", m.width);
  json.member("intermediate_size", m.hidden).member("head_dim", m.features_of_head());
  json.member("vocab_size", m.vocabulary).member("max_position_embeddings", m.context);
  json.member("hidden_act", "silu").member("rms_norm_eps", m.epsilon);
  json.member("tie_word_embeddings", m.tied);
  if (!is_qwen2) json.member("attention_bias", m.biases);
  json.member("rope_theta", m.rotary.theta);
  detail::write_rope(json.object("rope_scaling"), m.rotary);
  json.end();
  detail::write_rope(json.object("rope_parameters").member("rope_theta", m.rotary.theta), m.rotary);
  json.end().end();
  return {.names = names,
          .configuration = json.text(),
          .prefix = "model.",
          .ignored_suffixes = std::span(ignored_suffixes).first(m.tied ? 2 : 1),
          .required_keys = required_keys};
}

} // namespace constrain
