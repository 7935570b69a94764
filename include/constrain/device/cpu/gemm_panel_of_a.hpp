#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/cpu/gemm_prefetch.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A panel of A, packed: [k, rows].
template <class packed, int rows> struct gemm_packed_rows {
  packed const* column; // the next column of A

  /// Element `row` of the column that is `ahead` columns after the next one.
  [[gnu::always_inline]] packed at(std::size_t row, std::size_t ahead) const { return column[ahead * rows + row]; }
  /// Advances by `count` columns.
  [[gnu::always_inline]] void advance(std::int64_t count) { column += count * rows; }
  /// Prefetches the column that is `count` columns after the next one; the panel may end before it.
  [[gnu::always_inline]] void fetch(std::int64_t count) const {
    gemm_fetch(column + count * rows, rows * sizeof(packed));
  }
};

/// A panel of A (of B in `gemm_few_rows`), read in place. `at(row, ahead)` is next[row * stride + ahead].
template <class packed> struct gemm_rows_in_place {
  packed const* next;
  std::int64_t stride;

  /// As in `gemm_packed_rows`.
  [[gnu::always_inline]] packed at(std::size_t row, std::size_t ahead) const {
    return next[static_cast<std::int64_t>(row) * stride + static_cast<std::int64_t>(ahead)];
  }
  /// As in `gemm_packed_rows`.
  [[gnu::always_inline]] void advance(std::int64_t count) { next += count; }
  /// Prefetches nothing: the processor itself prefetches elements that are adjacent along k.
  [[gnu::always_inline]] void fetch(std::int64_t) const {}
};

} // namespace constrain::detail
