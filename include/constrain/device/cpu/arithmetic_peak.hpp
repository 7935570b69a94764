#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/stopwatch.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Chains of multiply-adds that do not depend on one another, enough to hide the latency of one behind the others.
template <class real> struct multiply_add_chains {
  using lanes = vector_of<real>;
  static constexpr int chains = 12;
  static constexpr double operations_a_round = 2.0 * chains * lanes::lanes;

  static real run(std::int64_t rounds, real factor, real term) {
    return run(rounds, factor, term, std::make_integer_sequence<int, chains>{});
  }

private:
  template <int... chain> static real run(std::int64_t rounds, real factor, real term, std::integer_sequence<int, chain...>) {
    typename lanes::vector const zero{}, f = zero + factor, t = zero + term;
    typename lanes::vector sum[] = {zero + static_cast<real>(chain)...};
    for (std::int64_t round = 0; round < rounds; ++round) ((sum[chain] = sum[chain] * f + t), ...);
    real result = 0;
    for (int i = 0; i < lanes::lanes; ++i) result += (sum[chain][i] + ...);
    return result;
  }
};

} // namespace detail

/// Operations a second of multiply-adds (each two) in registers on all threads: what this processor could do at most in
/// `real`. Each thread's best of many short measurements, so that what else runs on the machine does not count; a
/// hundredth of a second in all.
template <class real = float> double arithmetic_peak() {
  using chains = detail::multiply_add_chains<real>;
  constexpr std::int64_t rounds = 20'000;
  constexpr int measurements = 200; // the first ones find the clock still low
  real volatile factor = real(0.999), term = real(0.001), sink = 0; // so that nothing is known beforehand
  real const f = factor, t = term;
  std::vector<double> rates(static_cast<std::size_t>(thread_count()));
  parallel_for(static_cast<std::int64_t>(rates.size()), [&](std::int64_t thread) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < measurements; ++i) {
      stopwatch const since;
      if (chains::run(rounds, f, t) == 0) sink = 1;
      least = std::min(least, since.seconds());
    }
    rates[static_cast<std::size_t>(thread)] = chains::operations_a_round * rounds / least;
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

} // namespace constrain
