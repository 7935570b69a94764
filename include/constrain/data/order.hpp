#pragma once

#include "constrain/base/error.hpp"
#include "constrain/device/random.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::data {

/// The number of samples in a corpus of `corpus_tokens` tokens. With T = `context`, sample s has the inputs [s T,
/// s T + T) and the labels [s T + 1, s T + T + 1), as indices of tokens; tokens after the last label are not used.
/// Throws `error` if `context` is below 1 or the corpus is too short for one sample. The error's text begins with
/// `caller`: the name of the call and, if the call takes several corpora, the name of the option, such as "fit,
/// .validation". If `caller` is empty, the error names no caller.
constexpr std::int64_t samples(std::int64_t corpus_tokens, std::int64_t context, std::string_view caller = {}) {
  if (context < 1)
    throw error(
        {caller, caller.empty() ? "" : ": ", "a context of ", context, " tokens is too short; give at least 1"});
  if (corpus_tokens <= context)
    throw error({caller, caller.empty() ? "" : ": ", "the corpus has ", counted(corpus_tokens, "token"),
                 ", but a context of ", context, " needs at least ", static_cast<std::uint64_t>(context) + 1,
                 "; give more text or use a shorter context"});
  return (corpus_tokens - 1) / context;
}

/// A random permutation of [0, count) that needs O(1) memory: a Feistel network over [0, p), where p is the smallest
/// power of four that is at least `count`, with Philox as its round function. The network is applied repeatedly until
/// the result is below `count` (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). Equal
/// (seed, epoch, count) give the same permutation on every machine.
class permutation {
public:
  /// Throws `error` if `count` is below 1.
  constexpr permutation(std::uint64_t seed, std::int64_t epoch, std::int64_t count)
      : seed_(seed), epoch_(static_cast<std::uint64_t>(epoch)), count_(static_cast<std::uint64_t>(count)),
        half_((65 - std::countl_zero(count_ - 1)) / 2) {
    if (count < 1) throw error({"permutation: there are ", count, " samples to shuffle; give at least 1"});
  }

  /// The value that `index` maps to. Throws `error` unless 0 <= `index` < count.
  constexpr std::int64_t operator()(std::int64_t index) const {
    if (index < 0 || static_cast<std::uint64_t>(index) >= count_)
      throw error({"permutation: sample ", index, " is outside an epoch of ", counted(count_, "sample"),
                   "; give an index from 0 to ", count_ - 1});
    auto x = static_cast<std::uint64_t>(index);
    do x = shuffled(x);
    while (x >= count_);
    return static_cast<std::int64_t>(x);
  }

private:
  std::uint64_t seed_, epoch_, count_;
  int half_; ///< Bits of each half of an index in the Feistel network.

  /// One pass of the Feistel network, a permutation of [0, 2^(2 x `half_`)).
  constexpr std::uint64_t shuffled(std::uint64_t x) const {
    constexpr std::uint32_t purpose = 0x6f726465; // "orde": separates these draws from other draws with the same seed
    auto const mask = (std::uint64_t{1} << half_) - 1;
    auto left = x >> half_, right = x & mask;
    philox_key const key{{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)}};
    // For a `count` above about 16, six rounds would suffice. For smaller counts, six rounds would let some pairs of
    // samples follow each other measurably more often than other pairs.
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

/// A position in the endless sequence of a data set's samples, which are shuffled again in each epoch. With the same
/// data, context and seed, a position suffices to resume reading.
struct position {
  std::int64_t epoch = 0;  ///< Number of complete epochs before this position.
  std::int64_t sample = 0; ///< Index in the epoch's shuffled order, not in the data set.

  /// Advances by `samples` samples (at least 0) in a data set of `count` samples (at least 1, not checked); after an
  /// epoch's last sample, to the start of the next epoch.
  constexpr void advance(std::int64_t count, std::int64_t samples = 1) {
    epoch += samples / count;
    sample += samples % count;
    if (sample < count) return;
    sample -= count;
    ++epoch;
  }

  /// The index of the position's sample in a data set of `count` samples. `seed`: seed of the order. Throws `error`
  /// unless 0 <= `sample` < `count`.
  constexpr std::int64_t in_corpus(std::uint64_t seed, std::int64_t count) const {
    return permutation(seed, epoch, count)(sample);
  }

  friend constexpr bool operator==(position const&, position const&) = default;
};

} // namespace constrain::data
