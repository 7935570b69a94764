#pragma once

#include "constrain/device/cpu/random_lanes.hpp"
#include "constrain/op/narrow_weight/kernel.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::round_stochastically, cpu> {
  static void run(call_of<op::round_stochastically> const& c, tensor<float const> x,
                  tensor<double const> norm_and_scale, tensor<bfloat16> y) {
    round(stochastic_rounding(cpu{}, c, x, norm_and_scale, y));
  }

  /// Rounds the elements of all draws, with the same results as a loop that calls `body(i)` for each draw i, but
  /// faster.
  static void round(round_stochastically_elements const& body) {
    if (body.norm_and_scale[1] == 0) return;
    constexpr std::int64_t lanes = random_lanes::draws, chunk = 2048; // a chunk has 16384 elements
    parallel_chunks(body.draws(), chunk, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += lanes) {
        auto const first = 8 * i - body.first % 8;
        if (i + lanes <= end && first >= 0 && first + 8 * lanes <= body.count) round_block(body, i, first);
        else
          for (auto k = i; k < std::min(i + lanes, end); ++k) body(k);
      }
    });
  }

private:
  /// Rounds the elements of `random_lanes::draws` draws. `i`: the first draw; `first`: its first element.
  static void round_block(round_stochastically_elements const& body, std::int64_t i, std::int64_t first) {
    random_lanes const lanes(body.stream(), body.first / 8 + i);
    std::uint16_t bits[2 * random_lanes::words];
    simd_loop(random_lanes::words, [&](std::int64_t k) {
      bits[2 * k] = static_cast<std::uint16_t>(lanes.word[k]);
      bits[2 * k + 1] = static_cast<std::uint16_t>(lanes.word[k] >> 16);
    });
    simd_loop(2 * random_lanes::words, [&bits, x = body.x + first, y = body.y + first](std::int64_t k) {
      y[k] = round_stochastically(x[k], bits[k]);
    });
  }
};

} // namespace constrain
