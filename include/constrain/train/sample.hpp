#pragma once

#include "constrain/device/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How generated tokens are drawn.
struct generate_options {
  double temperature = 1;  // 0: always the most likely token
  int top_k = 0;           // draw among the k most likely ones; 0: among all
  std::uint64_t seed = 0;  // of the draws
};

/// Draws tokens from logits; the n-th draw depends on the seed, n and the logits alone.
class sampler {
public:
  explicit sampler(generate_options const& options) : options_(options) {}

  /// One of `classes` tokens.
  template <class stored> std::int32_t operator()(stored const* logits, std::size_t classes, std::int64_t n) {
    order_.resize(classes);
    std::iota(order_.begin(), order_.end(), 0);
    auto const more_likely = [&](std::int32_t a, std::int32_t b) {
      auto const x = static_cast<double>(logits[a]), y = static_cast<double>(logits[b]);
      return x > y || (x == y && a < b);
    };
    std::sort(order_.begin(), order_.end(), more_likely);
    if (options_.temperature <= 0) return order_[0];
    auto const candidates = options_.top_k > 0 ? std::min(order_.size(), static_cast<std::size_t>(options_.top_k)) : order_.size();
    auto const weight = [&](std::size_t i) {
      auto const x = static_cast<double>(logits[order_[i]]);
      return std::exp((x - static_cast<double>(logits[order_[0]])) / options_.temperature);
    };
    double total = 0;
    for (std::size_t i = 0; i < candidates; ++i) total += weight(i);
    constexpr std::uint32_t purpose = 0x64726177; // sets these draws apart from all others under the same seed
    auto const bits = philox({{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, purpose}},
                             {{static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)}});
    double left = total * static_cast<double>(uniform(bits.word[0]));
    for (std::size_t i = 0; i < candidates; ++i) {
      left -= weight(i);
      if (left < 0) return order_[i];
    }
    return order_[candidates - 1];
  }

private:
  generate_options options_;
  std::vector<std::int32_t> order_;
};

} // namespace constrain
