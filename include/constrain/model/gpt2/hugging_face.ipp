#pragma once

#include "constrain/model/gpt2/hugging_face.hpp"

#include "constrain/io/json.hpp"
#include "constrain/io/json_writer.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string weight_format_of<gpt2>::normalize(io::json const& configuration) {
  auto const causal = configuration.find("is_causal"); // in Transformers 5, null means false
  io::json_writer json;
  json.object().member("is_causal", !causal || (!causal->is_null() && causal->boolean())).end();
  return json.text();
}

[[gnu::cold]] CONSTRAIN_INLINE weight_format weight_format_of<gpt2>::make(gpt2 const& m) {
  io::json_writer json;
  json.object().array("architectures").element("GPT2LMHeadModel").end().member("model_type", "gpt2");
  json.member("n_layer", m.layers).member("n_head", m.heads).member("n_embd", m.width);
  json.member("n_inner", 4 * m.width);
  json.member("vocab_size", m.vocabulary).member("n_positions", m.context);
  json.member("activation_function", "gelu_new").member("layer_norm_epsilon", 1e-5);
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
          .normalized = R"({"is_causal": true})",
          .copies = copies};
}

} // namespace constrain
