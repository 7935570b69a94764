#pragma once

#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"
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

/// How generated tokens are drawn.
struct generate_options {
  double temperature = 1; // 0: always the most likely token
  int top_k = 0;          // draw among the k most likely ones; 0: among all
  std::uint64_t seed = 0; // of the draws
};

/// Refuses text where tokens are no bytes.
template <std::int64_t vocabulary> struct tokens_are_bytes {
  static_assert(
      vocabulary == data::corpus::byte_vocabulary,
      "generate: text is one token a byte, which takes a model of exactly 256 tokens, and this one's `vocabulary` "
      "is another; pass tokens instead: generate(std::span<std::int32_t const>(tokens), count)");
};

namespace detail {

/// Text as tokens, one a byte, and back.
inline std::vector<std::int32_t> tokens_of(std::string_view text) {
  std::vector<std::int32_t> tokens;
  for (char const c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}
inline std::string text_of(std::vector<std::int32_t> const& tokens) {
  std::string text;
  for (auto const token : tokens) text += static_cast<char>(token);
  return text;
}

/// Fills a context with the last tokens, those that fit, and 0 behind them. Returns how many they are.
inline std::int64_t fill_context(std::vector<std::int32_t>& context, std::vector<std::int32_t> const& tokens) {
  auto const length = static_cast<std::ptrdiff_t>(std::min(context.size(), tokens.size()));
  std::copy(tokens.end() - length, tokens.end(), context.begin());
  std::fill(context.begin() + length, context.end(), 0);
  return length;
}

} // namespace detail

/// Draws tokens from logits; the n-th draw depends on the seed, n and the logits alone.
class sampler {
public:
  /// Throws `error` for options that no draw follows from.
  explicit sampler(generate_options const& options) : options_(options) {
    check_number("generate_options", ".temperature", options.temperature, number_range::from_zero);
    check_count("generate_options", ".top_k", options.top_k, 0);
  }

  /// One of `classes` tokens. Throws `error` where a logit is NaN or the largest is not finite: nothing follows from
  /// them.
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
    constexpr std::uint32_t purpose = 0x64726177; // sets these draws apart from all others under the same seed
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
  template <class stored> static void check(stored const* logits, std::size_t classes, std::int64_t n) {
    bool some = false, all = true; // finite; minus infinity is a token that is never drawn
    for (std::size_t i = 0; i < classes; ++i) {
      auto const x = static_cast<double>(logits[i]);
      bool const never =
          std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(-std::numeric_limits<double>::infinity());
      some = some || math::finite(x), all = all && (never || math::finite(x));
    }
    if (!some || !all)
      throw error({"generate: the logits of new token ", n + 1,
                   " are not finite, so none can be drawn: the weights are destroyed, "
                   "or an operation of the model overflows; load a checkpoint from before"});
  }

  generate_options options_;
  std::vector<std::int32_t> order_;
};

} // namespace constrain
