#pragma once

#include "constrain/model/llama/llama.hpp"
#include "constrain/model/weight_format.hpp"

#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The weight format of Hugging Face Transformers' LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and
/// Qwen3ForCausalLM: every parameter of a block is one tensor per block, and a tied head is not written.
template <> struct weight_format_of<llama> {
  /// For each parameter that a model can have: its name in this library, and its name in files.
  static constexpr stored_name names[] = {
      {"token.weight", "model.embed_tokens.weight"},
      {"block.norm_1.weight", "model.layers.*.input_layernorm.weight"},
      {"block.query.weight", "model.layers.*.self_attn.q_proj.weight"},
      {"block.query.bias", "model.layers.*.self_attn.q_proj.bias"},
      {"block.query_norm.weight", "model.layers.*.self_attn.q_norm.weight"},
      {"block.key.weight", "model.layers.*.self_attn.k_proj.weight"},
      {"block.key.bias", "model.layers.*.self_attn.k_proj.bias"},
      {"block.key_norm.weight", "model.layers.*.self_attn.k_norm.weight"},
      {"block.value.weight", "model.layers.*.self_attn.v_proj.weight"},
      {"block.value.bias", "model.layers.*.self_attn.v_proj.bias"},
      {"block.projection.weight", "model.layers.*.self_attn.o_proj.weight"},
      {"block.norm_2.weight", "model.layers.*.post_attention_layernorm.weight"},
      {"block.gate.weight", "model.layers.*.mlp.gate_proj.weight"},
      {"block.up.weight", "model.layers.*.mlp.up_proj.weight"},
      {"block.down.weight", "model.layers.*.mlp.down_proj.weight"},
      {"norm.weight", "model.norm.weight"},
      {"head.weight", "lm_head.weight"},
  };
  /// Suffixes of the names of tensors that the model does not need: the frequencies that old versions of Transformers
  /// stored and, only for a tied model, the head.
  static constexpr std::string_view ignored_suffixes[] = {".rotary_emb.inv_freq", "lm_head.weight"};

  /// The head of a tied model is its token embedding. Files may also contain the head as a tensor of its own.
  static constexpr stored_copy copies[] = {{"lm_head.weight", "model.embed_tokens.weight"}};

  /// Keys that a config.json, or the result of `normalize`, must have. Transformers replaces a missing key with a
  /// default, which may be wrong for the model.
  static constexpr std::string_view required_keys[] = {"num_hidden_layers", "num_attention_heads", "hidden_size",
                                                       "intermediate_size", "vocab_size",          "rms_norm_eps"};

  /// Keys whose values are compared only in the form that `normalize` returns.
  static constexpr std::string_view normalized_keys[] = {"rope_theta",         "rope_scaling",   "rope_parameters",
                                                         "hidden_act",         "attention_bias", "mlp_bias",
                                                         "tie_word_embeddings"};

  /// Keys that only limit the number of tokens.
  static constexpr std::string_view limits[] = {"max_position_embeddings"};

  /// The format for one model, with the text of the model's config.json.
  [[gnu::cold]] static weight_format make(llama const& m);
  /// The values of a config.json that describe the kind of model, rotary embeddings, biases, sliding windows, the
  /// activation, causal attention and a tied head, in one form for Transformers 4 and 5; see
  /// `weight_format::normalize`. If a file has values for both versions, only those that Transformers 5 reads are used.
  /// A missing key gets Transformers' default; a missing key without a default, such as the `factor` of rope_scaling,
  /// stays missing. A key that Transformers does not read for this model_type, such as a Mistral's mlp_bias, is left
  /// out. The model_type of a Mistral becomes "llama", with or without a sliding window. A Qwen's use_sliding_window
  /// becomes false if sliding_window is null, if max_window_layers leaves no layer with a window, or if the file has
  /// layer_types, which take precedence. layer_types becomes one string: the type of all layers ("full_attention" also
  /// for "attention"), or "several" if they differ. The window's size is kept only for a Mistral whose layer_types are
  /// not all "full_attention"; otherwise, it becomes 0. The rope_type "linear" or "llama3" with the factor 1 becomes
  /// "default", and the activation "swish" becomes "silu", its other name. Throws `error` if one of these values has
  /// the wrong type.
  [[gnu::cold]] static std::string normalize(io::json const& configuration);
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/model/llama/hugging_face.ipp"
#endif
