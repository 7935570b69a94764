#pragma once

#include "constrain/base/error.hpp"
#include "constrain/data/corpus.hpp"
#include "constrain/device/math.hpp"
#include "constrain/device/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How `generate` samples tokens. `generate` throws `error` for a field out of range.
struct generate_options {
  double temperature = 1; // divides the logits, at least 0; 0: always the most likely token
  int top_k = 0;          // sample among this many most likely tokens, at least 0; 0: among all
  std::uint64_t seed = 0; // of the random draws
};

/// The compile-time error for generating with a model that cannot generate tokens.
template <bool takes_tokens, bool per_token> struct generates_tokens {
  static_assert(takes_tokens,
                "generate: the model takes other inputs than one array of tokens; use predict({first, second})");
  static_assert(per_token, "generate: the model gives no logits per token; use predict(inputs)");
};

/// The compile-time error for generating text with a model whose vocabulary is not 256.
template <std::int64_t vocabulary> struct tokens_are_bytes {
  static_assert(
      vocabulary == data::corpus::byte_vocabulary,
      "generate: a text is one token per byte and needs a model with `vocabulary` 256, but this model has another; "
      "pass tokens instead: generate(std::span<std::int32_t const>(tokens), count)");
};

namespace detail {

/// Text to tokens, one per byte.
std::vector<std::int32_t> tokens_of(std::string_view text);
/// Tokens to text, one byte per token.
std::string text_of(std::vector<std::int32_t> const& tokens);

/// Copies the last tokens that fit to the beginning of `context` and fills the rest with token 0. Returns the number of
/// tokens copied.
std::int64_t fill_context(std::vector<std::int32_t>& context, std::vector<std::int32_t> const& tokens);

} // namespace detail

/// Samples tokens from logits. The n-th draw depends only on the options, n and the logits.
class sampler {
public:
  /// Throws `error` for a temperature that is negative or not finite, or a negative `top_k`.
  explicit sampler(generate_options const& options);

  /// Draw number `n`, counted from 0: samples one of `classes` tokens. Of equal logits, the lower token id ranks first.
  /// Throws `error` if a logit is NaN or +infinity, or if all are -infinity.
  template <class stored> std::int32_t operator()(stored const* logits, std::size_t classes, std::int64_t n) {
    check(logits, classes, n);
    order_.resize(classes);
    for (std::size_t i = 0; i < classes; ++i) order_[i] = static_cast<std::int32_t>(i);
    auto const more_likely = [&](std::int32_t a, std::int32_t b) {
      auto const x = static_cast<double>(logits[a]), y = static_cast<double>(logits[b]);
      return x > y || (x == y && a < b);
    };
    std::sort(order_.begin(), order_.end(), more_likely);
    if (options_.temperature <= 0) return order_[0];
    auto const candidates =
        options_.top_k > 0 ? std::min(order_.size(), static_cast<std::size_t>(options_.top_k)) : order_.size();
    auto const weight = [&](std::size_t i) {
      auto const x = static_cast<double>(logits[order_[i]]);
      return std::exp((x - static_cast<double>(logits[order_[0]])) / options_.temperature);
    };
    double total = 0;
    for (std::size_t i = 0; i < candidates; ++i) total += weight(i);
    constexpr std::uint32_t purpose = 0x64726177; // "draw": keeps these draws distinct from others with the same seed
    auto const bits =
        philox({{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, purpose}},
               {{static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)}});
    double left = total * static_cast<double>(uniform(bits.word[0]));
    for (std::size_t i = 0; i < candidates; ++i) {
      left -= weight(i);
      if (left < 0) return order_[i];
    }
    return order_[candidates - 1];
  }

private:
  /// Throws `error` unless every logit is finite or -infinity (never sampled) and at least one is finite.
  template <class stored> static void check(stored const* logits, std::size_t classes, std::int64_t n) {
    bool some = false, all = true; // some logit is finite; all are finite or -infinity
    for (std::size_t i = 0; i < classes; ++i) {
      auto const x = static_cast<double>(logits[i]);
      bool const never =
          std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(-std::numeric_limits<double>::infinity());
      some = some || math::finite(x), all = all && (never || math::finite(x));
    }
    if (!some || !all)
      throw error({"generate: the logits of new token ", n + 1,
                   " are not finite, so no token can be sampled: a weight is not finite, or an operation of the "
                   "model overflows; load an earlier saved run"});
  }

  generate_options options_;
  std::vector<std::int32_t> order_;
};

} // namespace constrain

#if CONSTRAIN_DEFINITIONS
#include "constrain/train/sample.ipp"
#endif
