#pragma once

#include "constrain/device/cpu/parallel.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// y[i] = sum over rows of x[row, i], with x [rows, columns] row-major; if `add`, the sum is added to y[i]. `stride`:
/// elements from one row to the next; 0: the rows are contiguous. Each thread sums some of the columns, so every column
/// is summed in row order for any number of threads.
template <class stored, class real>
void sum_rows(stored const* x, std::int64_t rows, std::int64_t columns, real* y, bool add, std::int64_t stride = 0) {
  if (stride == 0) stride = columns;
  constexpr std::int64_t width = 64; // columns per chunk; the sums of a chunk stay in the L1 cache
  parallel_chunks(columns, width, [=](std::int64_t begin, std::int64_t end) {
    real sum[width]{};
    auto const n = end - begin;
    for (std::int64_t row = 0; row < rows; ++row) {
      stored const* from = x + row * stride + begin;
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < n; ++i) sum[i] += from[i];
    }
    for (std::int64_t i = 0; i < n; ++i) y[begin + i] = add ? y[begin + i] + sum[i] : sum[i];
  });
}

/// y[i] = sum over chunks, in order, of partial[chunk * stride + i], for i < width; if `add`, the sum is added to y[i].
template <class real>
void add_up_chunks(real const* partial, std::int64_t chunks, std::int64_t stride, std::int64_t width, real* y,
                   bool add) {
  for (std::int64_t i = 0; i < width; ++i) {
    real sum = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * stride + i];
    y[i] = add ? y[i] + sum : sum;
  }
}

/// The sum of `term(i)` over [begin, end), 0 if the range is empty: 32 interleaved partial sums, which are then added
/// pairwise. The loop is vectorized (`simd_loop` explains `flatten`), and the order is the same on every machine. With
/// fewer partial sums, the latency of the additions would limit the loop.
template <class real, class function>
[[gnu::flatten]] real ordered_sum(std::int64_t begin, std::int64_t end, function const& term) {
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
