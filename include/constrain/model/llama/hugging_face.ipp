#pragma once

#include "constrain/model/llama/hugging_face.hpp"

#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"

#include <optional>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Writes the members that rope_parameters (Transformers 5) and rope_scaling (Transformers 4) have in common into the
/// open object of `json`. rope_theta is not one of them. `factor`: the key of the factor.
[[gnu::cold]] CONSTRAIN_INLINE void write_rope(io::json_writer& json, rotary_options const& o,
                                               char const* factor = "factor") {
  bool const scales = o.factor != 1;
  json.member("rope_type", !scales ? "default" : o.original_context == 0 ? "linear" : "llama3");
  if (scales) json.member(factor, o.factor);
  if (scales && o.original_context != 0) {
    json.member("original_max_position_embeddings", o.original_context);
    json.member("low_freq_factor", o.low_freq_factor).member("high_freq_factor", o.high_freq_factor);
  }
}

inline constexpr char const* rotary_factor = "rotary factor"; // the factor's key in the normalized form; errors show it

/// The object's member `name`, an object; nullopt if it is missing or null. Throws `error` if it has another type.
[[gnu::cold]] CONSTRAIN_INLINE std::optional<io::json> inner_object(io::json const& object, std::string_view name) {
  auto const inner = object.value(name);
  if (inner) static_cast<void>(inner->members());
  return inner;
}

/// The kind of attention of all layers, such as "full_attention", whose former name is "attention"; "several" if the
/// layers differ, "" if the file has no layer_types, or an empty list.
[[gnu::cold]] CONSTRAIN_INLINE std::string_view layer_type_of(io::json const& configuration) {
  std::string_view all;
  if (auto const types = configuration.value("layer_types"))
    for (auto const type : types->elements()) {
      std::string_view const name = type.string() == "attention" ? "full_attention" : type.string();
      all = all.empty() || all == name ? name : "several";
    }
  return all;
}

/// The name of the activation of a model's MLP; "silu" if the name is missing or is "swish".
[[gnu::cold]] CONSTRAIN_INLINE std::string_view activation_of(io::json const& configuration) {
  auto const name = configuration.value("hidden_act");
  return !name || name->string() == "swish" ? "silu" : name->string();
}

/// Writes the model_type, and the members that Transformers reads only for some kinds of model, those about biases and
/// sliding windows, into the open object of `json`.
[[gnu::cold]] CONSTRAIN_INLINE void normalize_kind(io::json const& configuration, io::json_writer& json) {
  // A Mistral is a Llama that may have a sliding window. In a Qwen, the window depends on use_sliding_window, and only
  // layers from max_window_layers on have it.
  auto const model = configuration.value("model_type");
  std::string_view const kind = model ? model->string() : "";
  bool const is_mistral = kind == "mistral", is_qwen = kind == "qwen2" || kind == "qwen3";
  if (model) json.member("model_type", is_mistral ? "llama" : kind);
  auto const is_true = [&](char const* name) {
    auto const x = configuration.value(name);
    return x && x->boolean();
  };
  if (!is_mistral && !is_qwen) json.member("mlp_bias", is_true("mlp_bias"));
  if (!is_mistral && kind != "qwen2") json.member("attention_bias", is_true("attention_bias"));
  auto const window = configuration.find("sliding_window");
  auto const layer_type = layer_type_of(configuration);
  bool const is_full = is_mistral && layer_type == "full_attention";
  bool const has_window = (!window || !window->is_null()) && !is_full; // a missing sliding_window means 4096
  json.member("effective sliding_window", !is_mistral || !has_window ? 0 : window ? window->real() : 4096);
  auto const layers = configuration.value("num_hidden_layers"), first = configuration.value("max_window_layers");
  bool const no_layer_has_it =
      is_qwen && (!layer_type.empty() || !has_window || (layers && layers->real() <= (first ? first->real() : 28)));
  if (kind != "llama" && !is_mistral)
    json.member("use_sliding_window", is_true("use_sliding_window") && !no_layer_has_it);
  // Transformers ignores a Llama's layer_types. It reads a Mistral with layer_types as a Ministral.
  if (kind != "llama" && !layer_type.empty()) json.member("layer_types", layer_type);
}

} // namespace detail

[[gnu::cold]] CONSTRAIN_INLINE std::string weight_format_of<llama>::normalize(io::json const& configuration) {
  // A file of Transformers 5 has rope_parameters. If it also has a rope_scaling that is not empty, only rope_scaling
  // counts.
  auto const scaling = detail::inner_object(configuration, "rope_scaling"),
             parameters = detail::inner_object(configuration, "rope_parameters");
  auto const rope = scaling && scaling->size() != 0 ? scaling : parameters;
  auto const rope_value = [&](std::string_view name) { return rope ? rope->value(name) : std::nullopt; };
  auto theta = rope_value("rope_theta"), type = rope_value("rope_type");
  if (!theta) theta = configuration.value("rope_theta");
  if (!type) type = rope_value("type"); // this key's name before Transformers 4.43
  auto partial_rotary_factor = rope_value("partial_rotary_factor");
  if (!partial_rotary_factor) partial_rotary_factor = configuration.value("partial_rotary_factor");
  io::json_writer json;
  json.object().member("rope_theta", theta ? theta->real() : 10000.0);
  auto const factor = rope_value("factor");
  bool const is_one = factor && factor->real() == 1; // then these two types change nothing:
  bool const scales = type && !(is_one && (type->string() == "linear" || type->string() == "llama3"));
  json.member("rope_type", scales ? type->string() : "default");
  if (factor) json.member(detail::rotary_factor, factor->real());
  for (auto const* name : {"low_freq_factor", "high_freq_factor"})
    if (auto const x = rope_value(name)) json.member(name, x->real());
  auto original_context = rope_value("original_max_position_embeddings");
  if (type && type->string() == "llama3") { // Transformers 5 prefers the top-level key, and has a default
    auto const outer = configuration.value("original_max_position_embeddings");
    if (outer) original_context = outer;
    if (!original_context) original_context = configuration.value("max_position_embeddings");
  }
  if (original_context) json.member("original_max_position_embeddings", original_context->real());
  json.member("partial_rotary_factor", partial_rotary_factor ? partial_rotary_factor->real() : 1.0);
  auto const tied = configuration.value("tie_word_embeddings");
  json.member("tie_word_embeddings", tied && tied->boolean());
  auto const causal = configuration.find("is_causal"); // in Transformers 5, null means false
  json.member("hidden_act", detail::activation_of(configuration));
  json.member("is_causal", !causal || (!causal->is_null() && causal->boolean()));
  detail::normalize_kind(configuration, json);
  json.end();
  return json.text();
}

[[gnu::cold]] CONSTRAIN_INLINE weight_format weight_format_of<llama>::make(llama const& m) {
  io::json_writer json(io::json_reals::with_point), normalized; // Transformers 5 refuses an integer for a real
  bool const is_qwen2 = m.biases && !m.head_norms;
  // A Mistral without a window computes the same as a Llama. Transformers 5 refuses a Llama whose width is not a
  // multiple of its number of heads, even if head_dim is given.
  bool const is_mistral = m.window > 0 || m.width % m.heads != 0;
  auto const [name, type] = m.head_norms ? std::pair("Qwen3ForCausalLM", "qwen3")
                            : is_qwen2   ? std::pair("Qwen2ForCausalLM", "qwen2")
                            : is_mistral ? std::pair("MistralForCausalLM", "mistral")
                                         : std::pair("LlamaForCausalLM", "llama");
  json.object().array("architectures").element(name).end();
  json.member("model_type", type);
  json.member("num_hidden_layers", m.layers).member("num_attention_heads", m.heads);
  json.member("num_key_value_heads", m.key_value_head_count()).member("hidden_size", m.width);
  json.member("intermediate_size", m.hidden).member("head_dim", m.features_of_head());
  json.member("vocab_size", m.vocabulary).member("max_position_embeddings", m.context);
  json.member("hidden_act", "silu").member("rms_norm_eps", m.epsilon);
  json.member("tie_word_embeddings", m.tied).member("bos_token_id", nullptr).member("eos_token_id", nullptr);
  if (!is_qwen2) json.member("attention_bias", m.biases).member("mlp_bias", false);
  if (m.window > 0) json.member("sliding_window", m.window);
  else if (is_mistral) json.member("sliding_window", nullptr);
  json.member("rope_theta", m.rotary.theta);
  detail::write_rope(json.object("rope_scaling"), m.rotary);
  json.end();
  detail::write_rope(json.object("rope_parameters").member("rope_theta", m.rotary.theta), m.rotary);
  json.end().end();
  detail::write_rope(normalized.object().member("rope_theta", m.rotary.theta), m.rotary, detail::rotary_factor);
  if (!is_qwen2) normalized.member("attention_bias", m.biases).member("mlp_bias", false);
  normalized.member("hidden_act", "silu");
  normalized.member("partial_rotary_factor", 1.0);
  // An untied model needs a head, whatever the key says: Transformers does not tie a stored head that differs from the
  // token embedding.
  if (m.tied) normalized.member("tie_word_embeddings", true);
  normalized.member("is_causal", true).member("effective sliding_window", m.window);
  normalized.member("use_sliding_window", false);
  normalized.member("layer_types", m.window > 0 ? "sliding_attention" : "full_attention");
  normalized.member("model_type", type == std::string_view("mistral") ? "llama" : type).end();
  return {.names = names,
          .configuration = json.text(),
          .prefix = "model.",
          .ignored_suffixes = std::span(ignored_suffixes).first(m.tied ? 2 : 1),
          .required_keys = required_keys,
          .normalize = &normalize,
          .normalized = normalized.text(),
          .copies = std::span(copies).first(m.tied ? 1 : 0),
          .normalized_keys = normalized_keys,
          .limits = limits};
}

} // namespace constrain
