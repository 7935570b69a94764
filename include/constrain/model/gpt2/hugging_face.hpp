#pragma once

#include "constrain/model/gpt2/gpt2.hpp"
#include "constrain/model/weight_format.hpp"

#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The weights of Hugging Face Transformers' GPT2LMHeadModel: every parameter of a block is one tensor per block, the
/// matrices of linear layers are [in, out], and the head is tied to the token embedding.
template <> struct weight_format_of<gpt2> {
  /// For each parameter: its name in this library, its name in files, and whether the matrix in files is transposed.
  static constexpr stored_name names[] = {
      {"token.weight", "transformer.wte.weight"},
      {"position.weight", "transformer.wpe.weight"},
      {"block.norm_1.weight", "transformer.h.*.ln_1.weight"},
      {"block.norm_1.bias", "transformer.h.*.ln_1.bias"},
      {"block.attention.qkv.weight", "transformer.h.*.attn.c_attn.weight", true},
      {"block.attention.qkv.bias", "transformer.h.*.attn.c_attn.bias"},
      {"block.attention.projection.weight", "transformer.h.*.attn.c_proj.weight", true},
      {"block.attention.projection.bias", "transformer.h.*.attn.c_proj.bias"},
      {"block.norm_2.weight", "transformer.h.*.ln_2.weight"},
      {"block.norm_2.bias", "transformer.h.*.ln_2.bias"},
      {"block.mlp.up.weight", "transformer.h.*.mlp.c_fc.weight", true},
      {"block.mlp.up.bias", "transformer.h.*.mlp.c_fc.bias"},
      {"block.mlp.down.weight", "transformer.h.*.mlp.c_proj.weight", true},
      {"block.mlp.down.bias", "transformer.h.*.mlp.c_proj.bias"},
      {"norm.weight", "transformer.ln_f.weight"},
      {"norm.bias", "transformer.ln_f.bias"},
  };
  /// Suffixes of the names of tensors that the model does not need: the head, which is the token embedding, and the
  /// buffers of the causal mask that old versions of Transformers stored.
  static constexpr std::string_view ignored_suffixes[] = {"lm_head.weight", ".attn.bias", ".attn.masked_bias"};

  /// The head, which is the token embedding.
  static constexpr stored_copy copies[] = {{"lm_head.weight", "transformer.wte.weight"}};

  /// Keys that a config.json, or the result of `normalize`, must have. Transformers replaces a missing key with a
  /// default, which may be wrong for the model.
  static constexpr std::string_view required_keys[] = {"n_layer", "n_head", "n_embd", "vocab_size", "n_positions"};

  /// Keys whose values are compared only in the form that `normalize` returns. n_inner, which follows from n_embd, is
  /// listed so that errors name n_embd if both differ.
  static constexpr std::string_view normalized_keys[] = {"n_layer",     "n_head",  "n_embd",
                                                         "n_positions", "n_inner", "activation_function"};

  /// The format for one model, with the text of the model's config.json.
  [[gnu::cold]] static weight_format make(gpt2 const& m);
  /// The values of a config.json that have several forms; see `weight_format::normalize`: is_causal, which Transformers
  /// 5 reads (true if the key is missing, false if it is null), the activation ("gelu_new" for every name of this
  /// function), n_inner, and the sizes that may have one of Transformers' other names, such as hidden_size for n_embd.
  /// If a file has both names of a size, the other name counts. Throws `error` if one of these values has the wrong
  /// type.
  [[gnu::cold]] static std::string normalize(io::json const& configuration);
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/model/gpt2/hugging_face.ipp"
#endif
