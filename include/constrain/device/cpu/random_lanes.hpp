#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/random_stream.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The random words of `count` consecutive draws of a random stream, which are computed together in vector registers.
/// With this struct, the dropout of 196608 fp32 elements takes 0.22 ms instead of 1.10 ms (one core, Zen 4, g++ -O3).
struct random_lanes {
  static constexpr std::int64_t count = 16; // draws, one per lane
  std::uint32_t word[4][count];             // word[w][lane]: word w of stream.draw(i >> 32, i) for i = first + lane

  /// Computes the words of the draws `first` to `first + count - 1`.
  random_lanes(random_stream const& stream, std::int64_t first) {
    auto const counter = stream.counter(0, 0);
    simd_loop(count, [=, this](std::int64_t lane) {
      word[0][lane] = static_cast<std::uint32_t>(first + lane);
      word[1][lane] = static_cast<std::uint32_t>((first + lane) >> 32);
      word[2][lane] = counter.word[2], word[3][lane] = counter.word[3];
    });
    auto key = stream.key();
    for (int round = 0; round < philox_rounds; ++round, key = next_round_key(key))
      simd_loop(count, [=, this](std::int64_t lane) {
        auto const x = philox_round({{word[0][lane], word[1][lane], word[2][lane], word[3][lane]}}, key);
        word[0][lane] = x.word[0], word[1][lane] = x.word[1], word[2][lane] = x.word[2], word[3][lane] = x.word[3];
      });
  }
};

} // namespace constrain
