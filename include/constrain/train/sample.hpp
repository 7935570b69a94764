#pragma once

#include "constrain/data/corpus.hpp"
#include "constrain/op/attention/attention.hpp"
#include "constrain/op/flash_attention/flash_attention.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Options for how `generate` samples tokens. `generate` throws `error` for a field out of range.
struct generate_options {
  double temperature = 1; // divides the logits, at least 0; 0: always the most likely token
  int top_k = 0;          // how many of the most likely tokens to sample from, at least 0; 0: all tokens
  std::uint64_t seed = 0; // seed of the random draws
};

/// The compile-time error for generating with a model that cannot generate tokens.
template <bool takes_tokens, bool per_token, bool causal> struct generates_tokens {
  static_assert(takes_tokens,
                "generate: the inputs of the model are not a single array of tokens; use predict(inputs)");
  static_assert(per_token, "generate: the logits do not have the shape [sequences, tokens, classes]; return them in "
                           "this shape, or use predict(inputs)");
  static_assert(causal,
                "generate: an attention of the model is not causal, so it would attend to the padding after the "
                "tokens; leave .causal of its ct::attention_options at true, or use predict(inputs)");
};

/// The compile-time error for generating text with a model whose vocabulary is not 256.
template <std::int64_t vocabulary> struct tokens_are_bytes {
  static_assert(
      vocabulary == data::corpus::byte_vocabulary,
      "generate: text is one token per byte and needs a model with `vocabulary` 256, but this model's is different; "
      "pass tokens instead: generate(std::span<std::int32_t const>(tokens), count)");
};

namespace detail {

/// Whether a call of the library's attention without lengths lets tokens attend to later tokens of the sequence.
constexpr bool attends_to_later_tokens(program const& p) {
  for (auto const& n : p.nodes) {
    if (!calls(n, info_of<op::attention>) && !calls(n, info_of<op::flash_attention>)) continue;
    auto const o = unpack<attention_options>(n.attributes);
    bool const has_lengths = n.inputs.size() > 3 && !o.documents;
    if (!o.causal && o.window != 1 && !has_lengths) return true;
  }
  return false;
}

/// Text to tokens, one per byte.
std::vector<std::int32_t> tokens_of(std::string_view text);
/// Tokens to text, one byte per token. Tokens must be in [0, 256).
std::string text_of(std::vector<std::int32_t> const& tokens);

/// Throws `error` unless a sampled token is in [0, vocabulary).
void check_sampled(std::int32_t token, std::int64_t vocabulary);

/// Fills `context` with the last tokens, as many as fit, and then with token 0. Returns the number of tokens copied.
std::int64_t fill_context(std::vector<std::int32_t>& context, std::vector<std::int32_t> const& tokens);

/// A hash of a prompt and the options of `generate`, for `ranks::check_same_work`.
[[gnu::cold]] std::uint64_t hash_of(std::span<std::int32_t const> prompt, generate_options const& options);

} // namespace detail

/// Samples tokens from logits. The n-th draw depends only on the options, n and the logits.
class sampler {
public:
  /// Throws `error` for a temperature that is negative or not finite, or a negative `top_k`.
  explicit sampler(generate_options const& options);

  /// Samples one of `classes` tokens. `n`: the number of the draw, counted from 0. `logits`: an array of `classes`
  /// elements, at least 1. Among tokens with equal logits, the token with the lower id ranks first. Throws `error` if a
  /// logit is NaN or +infinity, or if all are -infinity.
  template <class stored> std::int32_t operator()(stored const* logits, std::size_t classes, std::int64_t n) {
    logits_.resize(classes);
    for (std::size_t i = 0; i < classes; ++i) logits_[i] = static_cast<double>(logits[i]);
    return draw(n);
  }

private:
  /// The token of draw `n`, sampled from `logits_`.
  std::int32_t draw(std::int64_t n);
  /// Throws `error` unless every logit is finite or -infinity (never sampled) and at least one is finite.
  void check(std::int64_t n) const;

  generate_options options_;
  std::vector<double> logits_;
  std::vector<std::uint32_t> order_; // token ids, the most likely first
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/sample.ipp"
#endif
