#pragma once

#include "constrain/device/cpu/parallel.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// y[i] (+)= the sum over rows of x[row, i]. Threads split the columns, so each sum runs over the rows in their order
/// whatever their number.
template <class stored, class real>
void sum_rows(stored const* x, std::int64_t rows, std::int64_t columns, real* y, bool add) {
  constexpr std::int64_t width = 64; // columns at a time: they stay in registers
  parallel_chunks(columns, width, [=](std::int64_t begin, std::int64_t end) {
    real sum[width]{};
    auto const n = end - begin;
    for (std::int64_t row = 0; row < rows; ++row) {
      stored const* from = x + row * columns + begin;
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < n; ++i) sum[i] += from[i];
    }
    for (std::int64_t i = 0; i < n; ++i) y[begin + i] = add ? y[begin + i] + sum[i] : sum[i];
  });
}

/// y[i] (+)= the sum over chunks, in their order, of what each has summed: partial[chunk * stride + i].
template <class real>
void add_up_chunks(real const* partial, std::int64_t chunks, std::int64_t stride, std::int64_t width, real* y,
                   bool add) {
  for (std::int64_t i = 0; i < width; ++i) {
    real sum = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * stride + i];
    y[i] = add ? y[i] + sum : sum;
  }
}

/// The sum of `term(i)` over [begin, end), in 32 interleaved partial sums: vectorised without reassociating at the
/// compiler's whim, so the order is the same everywhere. An addition takes four cycles: 16 at a time would wait for it.
template <class real, class function> real ordered_sum(std::int64_t begin, std::int64_t end, function const& term) {
  constexpr std::int64_t lanes = 32;
  real partial[lanes]{};
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    CONSTRAIN_SIMD
    for (std::int64_t lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  }
  for (std::int64_t lane = 0; i < end; ++i, ++lane) partial[lane] += term(i);
  for (std::int64_t half = lanes / 2; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  return partial[0];
}

} // namespace constrain
