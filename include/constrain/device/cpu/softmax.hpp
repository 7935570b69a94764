#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/math.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The maximum of x[0], ..., x[n - 1]; n >= 1. If x[0] is NaN, the result is NaN; other NaNs are ignored.
template <class stored> arithmetic<stored> max_of(stored const* x, std::int64_t n) {
  using real = arithmetic<stored>;
  constexpr std::int64_t lanes = 16;
  real lane_max[lanes];
  for (auto& b : lane_max) b = x[0];
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    CONSTRAIN_SIMD
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      lane_max[lane] = x[i + lane] > lane_max[lane] ? real(x[i + lane]) : lane_max[lane];
  }
  for (; i < n; ++i) lane_max[0] = x[i] > lane_max[0] ? real(x[i]) : lane_max[0];
  for (auto b : lane_max) lane_max[0] = b > lane_max[0] ? b : lane_max[0];
  return lane_max[0];
}

/// x = softmax(x), in place, over n >= 1 elements: exp(x - row_max) / sum(exp(x - row_max)), where row_max is the
/// maximum. NaN if row_max is infinite.
template <class real> void softmax_row(real* x, std::int64_t n) {
  real const row_max = max_of(x, n);
  CONSTRAIN_SIMD
  for (std::int64_t i = 0; i < n; ++i) x[i] = math::exp_or_zero(x[i] - row_max);
  real const scale = 1 / ordered_sum<real>(0, n, [=](std::int64_t i) { return x[i]; });
  CONSTRAIN_SIMD
  for (std::int64_t i = 0; i < n; ++i) x[i] *= scale;
}

/// log(sum(exp(x))) over n >= 1 elements, without overflow: the maximum is subtracted first. NaN if the maximum is
/// infinite.
template <class stored> arithmetic<stored> log_sum_exp(stored const* x, std::int64_t n) {
  using real = arithmetic<stored>;
  real const row_max = max_of(x, n);
  return row_max +
         math::log(ordered_sum<real>(0, n, [=](std::int64_t i) { return math::exp_or_zero(x[i] - row_max); }));
}

} // namespace constrain
