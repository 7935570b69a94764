#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/random_stream.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The random words of `draws` consecutive draws of a random stream, which are computed together in vector registers.
/// With this struct, the dropout of 196608 fp32 elements takes 0.22 ms instead of 1.10 ms (one core, Zen 4, g++ -O3).
struct random_lanes {
  static constexpr std::int64_t draws = 16; // one per lane of a vector register
  static constexpr std::int64_t words = 4 * draws;
  std::uint32_t word[words]; // word[4 * lane + w]: word w of stream.draw(i >> 32, i) for i = first + lane

  /// Computes the words of the draws `first` to `first + draws - 1`.
  random_lanes(random_stream const& stream, std::int64_t first) {
    std::uint32_t x[4][draws]; // x[w][lane]: word w of the counter of draw first + lane, then of each round's output
    auto const counter = stream.counter(0, 0);
    simd_loop(draws, [&](std::int64_t lane) {
      x[0][lane] = static_cast<std::uint32_t>(first + lane);
      x[1][lane] = static_cast<std::uint32_t>((first + lane) >> 32);
      x[2][lane] = counter.word[2], x[3][lane] = counter.word[3];
    });
    auto key = stream.key();
    for (int round = 0; round < philox_rounds; ++round, key = next_round_key(key))
      simd_loop(draws, [&x, key](std::int64_t lane) {
        auto const y = philox_round({{x[0][lane], x[1][lane], x[2][lane], x[3][lane]}}, key);
        x[0][lane] = y.word[0], x[1][lane] = y.word[1], x[2][lane] = y.word[2], x[3][lane] = y.word[3];
      });
    simd_loop(draws, [&x, this](std::int64_t lane) {
      word[4 * lane] = x[0][lane], word[4 * lane + 1] = x[1][lane];
      word[4 * lane + 2] = x[2][lane], word[4 * lane + 3] = x[3][lane];
    });
  }
};

} // namespace constrain
