#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "constrain/base/error.hpp"
#include "constrain/device/random.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// Samples in a corpus of `tokens` with a context of T: sample s has the inputs [s T, s T + T) and, one token on, the
/// labels [s T + 1, s T + T + 1). Throws `error` when there is not one.
constexpr std::int64_t samples(std::int64_t tokens, std::int64_t context) {
  if (context < 1) throw error({"a context of ", context, " tokens holds nothing; use at least 1"});
  if (tokens <= context)
    throw error({"the corpus has ", tokens, " tokens where a context of ", context, " needs at least ",
                 static_cast<std::uint64_t>(context) + 1, "; give more text or use a shorter context"});
  return (tokens - 1) / context;
}

/// A random order of the numbers [0, count), in constant memory: a Feistel network over the next power of four, keyed
/// by Philox, walked until it lands below `count` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
/// Equal (seed, epoch, count) give the same order on every machine.
class permutation {
public:
  /// Throws `error` when `count` is below 1.
  constexpr permutation(std::uint64_t seed, std::int64_t epoch, std::int64_t count)
      : seed_(seed), epoch_(static_cast<std::uint64_t>(epoch)), count_(static_cast<std::uint64_t>(count)),
        half_((std::bit_width(this->count_ - 1) + 1) / 2) {
    if (count < 1) throw error({"an order of ", count, " samples was asked for; give at least one"});
  }

  /// The number at place `index`. Throws `error` unless 0 <= `index` < count: a saved position of another corpus.
  constexpr std::int64_t operator()(std::int64_t index) const {
    if (index < 0 || static_cast<std::uint64_t>(index) >= count_)
      throw error({"the sample ", index, " is outside an epoch of ", count_,
                   " samples; resume with the corpus that the position was saved with"});
    auto x = static_cast<std::uint64_t>(index);
    do x = shuffled(x);
    while (x >= count_);
    return static_cast<std::int64_t>(x);
  }

private:
  std::uint64_t seed_, epoch_, count_;
  int half_; ///< Bits of each half.

  constexpr std::uint64_t shuffled(std::uint64_t x) const {
    constexpr std::uint32_t purpose = 0x6f726465; // Sets these draws apart from all others under the same seed.
    auto const mask = (std::uint64_t{1} << half_) - 1;
    auto left = x >> half_, right = x & mask;
    philox_key const key{{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)}};
    // Six rounds, enough for large halves, leave pairs of neighbours visibly uneven where count is below about 16.
    for (std::uint32_t round = 0; round < 12; ++round) {
      auto const draw = philox({{static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(epoch_),
                                 static_cast<std::uint32_t>(epoch_ >> 32), purpose + round}},
                               key);
      auto const mixed = left ^ (draw.word[0] & mask);
      left = right;
      right = mixed;
    }
    return left << half_ | right;
  }
};

/// How far an endless, every epoch reshuffled reading of a corpus has come: all that a resumed run needs.
struct position {
  std::int64_t epoch = 0;
  std::int64_t sample = 0; ///< Place in the epoch's order, not in the corpus.

  /// One sample further in a corpus of `count` samples.
  constexpr void advance(std::int64_t count) {
    if (++sample < count) return;
    sample = 0;
    ++epoch;
  }

  /// Which of `count` samples comes here.
  constexpr std::int64_t in_corpus(std::uint64_t seed, std::int64_t count) const {
    return permutation(seed, epoch, count)(sample);
  }

  friend constexpr bool operator==(position const&, position const&) = default;
};

} // namespace constrain::data
