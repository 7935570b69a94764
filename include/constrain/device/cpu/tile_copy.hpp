#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// to[row, column] = scale * from[row, column] for the elements of `from` [rows, columns]; the other elements of `to`
/// [to_rows, to_columns] become 0. `stride`: elements from one row of `from` to the next. 16-bit elements are converted
/// to float.
template <class stored, class real>
void load_tile(stored const* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, real scale, real* to,
               std::int64_t to_rows, std::int64_t to_columns) {
  for (std::int64_t row = 0; row < to_rows; ++row, from += stride, to += to_columns) {
    std::int64_t const valid = row < rows ? columns : 0;
    if (valid > 0) {
      CONSTRAIN_SIMD
      for (std::int64_t i = 0; i < valid; ++i) to[i] = scale * from[i];
    }
    for (std::int64_t i = valid; i < to_columns; ++i) to[i] = real{};
  }
}

/// a[offset], b[offset], a[offset + 1], b[offset + 1], ...: interleaves one half of a with the same half of b.
/// `offset`: 0 for the first half, half the number of lanes for the second.
template <int offset, class vector, std::size_t... lane>
inline vector interleave(vector const& a, vector const& b, std::index_sequence<lane...>) {
  constexpr int lanes = sizeof...(lane);
  return shuffled(
      a, b,
      std::integer_sequence<int, (offset + static_cast<int>(lane) / 2 + static_cast<int>(lane) % 2 * lanes)...>{});
}

/// Transposes a square matrix with as many rows as a vector has lanes. `from_stride`, `to_stride`: elements from one
/// row to the next.
template <class real>
inline void transpose_square(real const* from, std::int64_t from_stride, real* to, std::int64_t to_stride) {
  using vector = typename vector_of<real>::vector;
  using unaligned = typename vector_of<real>::unaligned;
  constexpr int lanes = vector_of<real>::lanes;
  using lane_indices = std::make_index_sequence<lanes>;
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    vector rows[] = {*reinterpret_cast<unaligned const*>(from + static_cast<std::int64_t>(i) * from_stride)...};
    // Interleaving the upper half of the rows with the lower half moves one bit of the row index into the column index.
    for (int bit = 1; bit < lanes; bit *= 2) {
      vector const interleaved[] = {
          interleave<static_cast<int>(i % 2) * (lanes / 2)>(rows[i / 2], rows[i / 2 + lanes / 2], lane_indices{})...};
      ((rows[i] = interleaved[i]), ...);
    }
    ((*reinterpret_cast<unaligned*>(to + static_cast<std::int64_t>(i) * to_stride) = rows[i]), ...);
  }
  (lane_indices{});
}

/// to[column, row] = from[row, column]; `rows` and `columns` are multiples of the number of lanes. `from_stride`,
/// `to_stride`: elements from one row to the next.
template <class real>
void transpose_tile(real const* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, real* to,
                    std::int64_t to_stride) {
  constexpr std::int64_t lanes = vector_of<real>::lanes;
  for (std::int64_t column = 0; column < columns; column += lanes)
    for (std::int64_t row = 0; row < rows; row += lanes)
      transpose_square(from + row * from_stride + column, from_stride, to + column * to_stride + row, to_stride);
}

} // namespace constrain::detail
