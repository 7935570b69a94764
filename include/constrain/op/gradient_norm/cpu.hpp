#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"

#include <algorithm>

namespace constrain {

template <> struct kernel<op::square_sum, cpu> {
  template <class real> static void run(call const& c, tensor<real const> gradient, tensor<double> squares) {
    // As many chunks whatever the threads; each is summed in double, then the chunks in order.
    constexpr std::int64_t chunks = 64;
    double partial[chunks]{};
    parallel_for(chunks, [&](std::int64_t chunk) {
      auto const begin = gradient.count * chunk / chunks;
      auto const end = gradient.count * (chunk + 1) / chunks;
      partial[chunk] = ordered_sum<double>(begin, end, [=](std::int64_t i) {
        auto const g = static_cast<double>(gradient[i]);
        return g * g;
      });
    });
    double sum = 0;
    for (double p : partial) sum += p;
    // The first gradient of a run defines the whole output, as every accumulator's first write does.
    if (!c.add_to(0))
      for (std::int64_t i = 0; i < squares.count; ++i) squares[i] = 0;
    squares[c.options.integer[0]] = sum;
  }
};

template <> struct kernel<op::clip, cpu> {
  static void run(call const& c, tensor<double const> squares, tensor<double> clip) {
    double sum = 0;
    for (std::int64_t i = 0; i < squares.count; ++i) sum += squares[i];
    double const norm = math::sqrt(sum);
    double const limit = c.numbers.clip_norm;
    clip[0] = norm;
    clip[1] = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
    if (!math::finite(norm)) clip[1] = 0;
  }
};

} // namespace constrain
