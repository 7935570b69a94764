#pragma once

#include "constrain/train/sample.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/error.hpp"
#include "constrain/base/heap_sort.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/base/number_check.hpp"
#include "constrain/comm/agreement.hpp"
#include "constrain/device/math.hpp"
#include "constrain/device/random.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

CONSTRAIN_INLINE std::vector<std::int32_t> tokens_of(std::string_view text) {
  std::vector<std::int32_t> tokens;
  for (char const c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

CONSTRAIN_INLINE std::string text_of(std::vector<std::int32_t> const& tokens) {
  std::string text;
  for (auto const token : tokens) text += static_cast<char>(token);
  return text;
}

CONSTRAIN_INLINE void check_sampled(std::int32_t token, std::int64_t vocabulary) {
  if (token >= vocabulary)
    throw error(
        {"generate: the model has chosen class ", token, ", but its inputs are tokens from 0 to ", vocabulary - 1,
         "; give the head as many classes as there are tokens, or call generate(tokens, 1) repeatedly and stop when it "
         "returns such a class"});
}

CONSTRAIN_INLINE std::int64_t fill_context(std::vector<std::int32_t>& context,
                                           std::vector<std::int32_t> const& tokens) {
  auto const length = static_cast<std::ptrdiff_t>(std::min(context.size(), tokens.size()));
  std::copy(tokens.end() - length, tokens.end(), context.begin());
  std::fill(context.begin() + length, context.end(), 0);
  return length;
}

[[gnu::cold]] CONSTRAIN_INLINE std::uint64_t hash_of(std::span<std::int32_t const> prompt,
                                                     generate_options const& options) {
  auto bytes = concat({std::bit_cast<std::uint64_t>(options.temperature), " ", options.top_k, " ", options.seed, " "});
  bytes.append(reinterpret_cast<char const*>(prompt.data()), prompt.size_bytes());
  return hash_of(bytes);
}

} // namespace constrain::detail

namespace constrain::inline CONSTRAIN_VARIANT {

CONSTRAIN_INLINE sampler::sampler(generate_options const& options) : options_(options) {
  check_number("generate_options", ".temperature", options.temperature, number_range::from_zero);
  check_count("generate_options", ".top_k", options.top_k, 0);
}

CONSTRAIN_INLINE std::int32_t sampler::draw(std::int64_t n) {
  check(n);
  order_.resize(logits_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<std::uint32_t>(i);
  detail::heap_sort(order_, [&](std::uint32_t a, std::uint32_t b) {
    return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
  });
  auto const token = [&](std::size_t i) { return static_cast<std::int32_t>(order_[i]); };
  if (options_.temperature <= 0) return token(0);
  auto const candidates =
      options_.top_k > 0 ? std::min(order_.size(), static_cast<std::size_t>(options_.top_k)) : order_.size();
  auto const weight = [&](std::size_t i) {
    return detail::libm::exp((logits_[order_[i]] - logits_[order_[0]]) / options_.temperature);
  };
  double total = 0;
  for (std::size_t i = 0; i < candidates; ++i) total += weight(i);
  constexpr std::uint32_t purpose = 0x64726177; // "draw": keeps these draws distinct from other draws with this seed
  auto const bits =
      philox({{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, purpose}},
             {{static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)}});
  double remaining = total * static_cast<double>(uniform(bits.word[0]));
  for (std::size_t i = 0; i < candidates; ++i) {
    remaining -= weight(i);
    if (remaining < 0) return token(i);
  }
  // Not reached: the draw is at most 1 - 2^-24, and the rounding errors of the sums are much smaller than 2^-24.
  return token(candidates - 1);
}

CONSTRAIN_INLINE void sampler::check(std::int64_t n) const {
  bool any_finite = false, all_allowed = true; // some logit is finite; all are finite or -infinity
  for (double const x : logits_) {
    bool const is_minus_infinity =
        std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(-std::numeric_limits<double>::infinity());
    any_finite = any_finite || math::finite(x), all_allowed = all_allowed && (is_minus_infinity || math::finite(x));
  }
  if (!any_finite && all_allowed)
    throw error({"generate: all logits of new token ", n + 1,
                 " are -infinity, so no token can be sampled; leave at least one token unmasked"});
  if (!all_allowed)
    throw error({"generate: a logit of new token ", n + 1,
                 " is NaN or +infinity, so no token can be sampled: a weight is not finite, or an operation of the "
                 "model overflows; load an earlier saved run"});
}

} // namespace constrain
