#pragma once

#include "constrain/op/flash_attention/cuda_tiles.cuh"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// For each query of a strip [rows, columns], the values that the gradient needs: the logsumexp of the scaled scores,
/// as an exponent of 2, and -sum(dy y). `of_columns`: whether the queries are the columns of the strip; otherwise, they
/// are its rows.
template <bool of_columns, class real, int rows, int columns> struct flash_query_sums {
  static constexpr int count = of_columns ? columns / 4 : rows / 8; // queries of which a lane holds values
  real log2_sums[count]{}, minus_row_sums[count]{};

  /// The index, in the two arrays, of the query of this lane's element in line `line` and column `column` of the strip.
  __device__ static int index(int line, int column) { return of_columns ? column / 8 * 2 + column % 2 : line; }
  /// The column of this lane's query `i`, if the queries are columns.
  __device__ static int column(int i) { return i / 2 * 8 + static_cast<int>(threadIdx.x % 4) * 2 + i % 2; }
  /// Distributes the values of the queries, which must be the columns: lane i passes the values of column i. All lanes
  /// of the warp must take part.
  __device__ void distribute(real log2_sum, real minus_row_sum) {
    static_assert(columns == 32);
    CT_UNROLL
    for (int i = 0; i < count; ++i) {
      log2_sums[i] = __shfl_sync(ptx::twin::all_lanes, log2_sum, column(i));
      minus_row_sums[i] = __shfl_sync(ptx::twin::all_lanes, minus_row_sum, column(i));
    }
  }
  /// Loads the values of the queries, which must be the columns, from two arrays with one element per column.
  __device__ void load(real const* logsumexps, real const* minus_row_sums_of_columns) {
    CT_UNROLL
    for (int i = 0; i < count; ++i) {
      log2_sums[i] = logsumexps[column(i)] * real(log2_of_e);
      minus_row_sums[i] = minus_row_sums_of_columns[column(i)];
    }
  }
  /// -sum(dy y) of the query of each of this lane's elements in rows [16 m, 16 m + 16) and columns [8 n, 8 n + 8).
  __device__ strip_block<real> minus_row_sums_of(int m, int n) const {
    auto const& x = minus_row_sums;
    if constexpr (of_columns) return {x[2 * n], x[2 * n + 1], x[2 * n], x[2 * n + 1]};
    else return {x[2 * m], x[2 * m], x[2 * m + 1], x[2 * m + 1]};
  }
};

/// sum(dy y) over a head's columns of row `row`, 0 beyond the last row. Two lanes whose indices differ only in the
/// lowest bit pass the same row, compute the sum together, and both get it. All lanes of the warp must take part.
/// `width`: columns of a tile.
template <int width, class accumulate, class stored>
__device__ accumulate sum_of_row(matrix_view<stored const> const& dy, matrix_view<stored const> const& y, int row) {
  constexpr int unit_elements = pack_of<stored>;
  accumulate sum = 0;
  int const first = static_cast<int>(threadIdx.x % 2) * unit_elements;
  auto const* const dy_row = dy.data + row * dy.stride;
  auto const* const y_row = y.data + row * y.stride;
  auto const add_unit = [&](int column) {
    accumulate a[unit_elements], b[unit_elements];
    load_pack(dy_row + column, a), load_pack(y_row + column, b);
    CT_UNROLL
    for (int i = 0; i < unit_elements; ++i) sum += a[i] * b[i];
  };
  if (row < dy.rows && dy.aligned && dy.columns == width) {
    // Unrolled, so that all loads can begin before the first sum.
    CT_UNROLL
    for (int column = 0; column < width; column += 2 * unit_elements) add_unit(first + column);
  } else {
    CT_KEEP_LOOP
    for (int column = first; row < dy.rows && column < dy.columns; column += 2 * unit_elements) {
      if (dy.aligned) add_unit(column);
      else
        for (int i = column; i < column + unit_elements && i < dy.columns; ++i)
          sum += accumulate(dy_row[i]) * accumulate(y_row[i]);
    }
  }
  return sum + __shfl_xor_sync(ptx::twin::all_lanes, sum, 1);
}

} // namespace constrain::detail
