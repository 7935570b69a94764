#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/libm.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Selects a block of a random stream: any 128 bits. (The words are a C array because device code indexes them.)
struct philox_counter {
  std::uint32_t word[4] = {}; // least significant word first
  friend constexpr bool operator==(philox_counter const&, philox_counter const&) = default;
};

/// Selects a random stream: any 64 bits.
struct philox_key {
  std::uint32_t word[2] = {}; // least significant word first
  friend constexpr bool operator==(philox_key const&, philox_key const&) = default;
};

/// The output of `philox`: four independent 32-bit words.
struct philox_block {
  std::uint32_t word[4] = {}; // each uniform over [0, 2^32)
  friend constexpr bool operator==(philox_block const&, philox_block const&) = default;
};

/// One of the rounds of `philox`: mixes the words of `x` with the key of the round.
CT_HOST_DEVICE constexpr philox_block philox_round(philox_block const& x, philox_key const& key) noexcept {
  std::uint64_t const even = std::uint64_t{0xD2511F53u} * x.word[0];
  std::uint64_t const odd = std::uint64_t{0xCD9E8D57u} * x.word[2];
  return {{static_cast<std::uint32_t>(odd >> 32) ^ x.word[1] ^ key.word[0], static_cast<std::uint32_t>(odd),
           static_cast<std::uint32_t>(even >> 32) ^ x.word[3] ^ key.word[1], static_cast<std::uint32_t>(even)}};
}
/// The key of the round after the round with key `key`.
CT_HOST_DEVICE constexpr philox_key next_round_key(philox_key const& key) noexcept {
  // 2^32 * (golden ratio - 1) and 2^32 * (sqrt(3) - 1)
  return {{key.word[0] + 0x9E3779B9u, key.word[1] + 0xBB67AE85u}};
}
/// The number of rounds of `philox`.
inline constexpr int philox_rounds = 10;

/// Philox4x32-10: a pure function from (counter, key) to 128 random bits; equal arguments give equal bits on every
/// device. Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
CT_HOST_DEVICE constexpr philox_block philox(philox_counter counter, philox_key key) noexcept {
  philox_block x{{counter.word[0], counter.word[1], counter.word[2], counter.word[3]}};
  for (int round = 0; round < philox_rounds; ++round) {
    x = philox_round(x, key);
    key = next_round_key(key);
  }
  return x;
}

/// Uniform in [0, 1): the upper 24 bits of `word` times 2^-24, without rounding.
CT_HOST_DEVICE constexpr float uniform(std::uint32_t word) noexcept { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Two independent samples of the standard normal distribution.
struct normal_pair {
  double first, second; // mean 0, variance 1
};

/// Two standard normal samples from two random words (Box-Muller), for initialization on the host. No sample is more
/// than 6.77 standard deviations from the mean, because `radius_word` has only 32 bits. Source: G. Box, M. Muller, "A
/// Note on the Generation of Random Normal Deviates", 1958.
inline normal_pair normal(std::uint32_t radius_word, std::uint32_t angle_word) noexcept {
  double const unit_value = (radius_word + 0.5) * 0x1p-32; // in (0, 1): never 0, so its logarithm is finite
  double const radius = detail::libm::sqrt(-2 * detail::libm::log(unit_value));
  double const angle = 6.283185307179586 * 0x1p-32 * angle_word;
  return {radius * detail::libm::cos(angle), radius * detail::libm::sin(angle)};
}

} // namespace constrain
