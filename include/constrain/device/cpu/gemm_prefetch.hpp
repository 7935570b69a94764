#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Prefetches into the L2 cache the rows of B that are needed next, while the current rows are multiplied.
struct gemm_prefetch {
  char const* row = nullptr;                        // the current row
  std::int64_t rows = 0, stride = 0, row_bytes = 0; // rows left; bytes from one row to the next; bytes to fetch per row
  std::int64_t lines_per_fetch = 0, offset = 0;     // cache lines per call to `fetch`; bytes of `row` already fetched

  static constexpr std::int64_t line = 64;    // bytes of a cache line
  static constexpr std::int64_t interval = 8; // rows of a micro-kernel's B between two calls to `fetch`

  /// Spreads all cache lines over `calls` calls to `fetch`.
  void spread_over(std::int64_t calls) { lines_per_fetch = (rows * ((row_bytes - 1) / line + 1) - 1) / calls + 1; }

  /// Prefetches the next cache lines. Always inlined: a call in a micro-kernel would spill all sums.
  [[gnu::always_inline]] void fetch() {
    for (std::int64_t i = 0; i < lines_per_fetch && rows > 0; ++i) {
      __builtin_prefetch(row + offset, 0, 2);
      if ((offset += line) >= row_bytes) offset = 0, row += stride, --rows;
    }
  }
};

} // namespace constrain::detail
