#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Prefetches rows of a matrix that are needed soon, a few cache lines at a time, between the multiplications.
struct gemm_prefetch {
  char const* row = nullptr;                        // the current row
  std::int64_t rows = 0, stride = 0, row_bytes = 0; // rows left; bytes from one row to the next; bytes to fetch per row
  std::int64_t lines_per_fetch = 0, offset = 0;     // cache lines per call; bytes of `row` already fetched

  static constexpr std::int64_t line = 64;    // bytes of a cache line
  static constexpr std::int64_t interval = 8; // rows of a micro-kernel's B between two calls

  /// Spreads all cache lines over `calls` calls, at least 1, to `fetch_to_read` or `fetch_to_write`.
  void spread_over(std::int64_t calls) { lines_per_fetch = (rows * ((row_bytes - 1) / line + 1) - 1) / calls + 1; }

  // The next functions are always inlined: a call in a micro-kernel would spill all sums.

  /// Prefetches the next cache lines into the L2 cache.
  [[gnu::always_inline]] void fetch_to_read() {
    for_next_lines([](char const* next) __attribute__((always_inline)) { __builtin_prefetch(next, 0, 2); });
  }
  /// Prefetches the next cache lines into the L1 cache, for writing where the target supports it.
  [[gnu::always_inline]] void fetch_to_write() {
    for_next_lines([](char const* next) __attribute__((always_inline)) { __builtin_prefetch(next, 1, 3); });
  }

private:
  template <class function> [[gnu::always_inline]] void for_next_lines(function fetch) {
    if (rows <= 0) return;
    auto lines = lines_per_fetch;
    do {
      fetch(row + offset);
      if ((offset += line) < row_bytes) continue;
      offset = 0, row += stride;
      if (--rows == 0) return;
    } while (--lines > 0);
  }
};

/// Prefetches `bytes` bytes at `from` into the L1 cache: the cache lines that contain byte 0, byte 64 and so on. If
/// `from` is not at the beginning of a line, the last bytes may be left out. The bytes need not exist, because a
/// prefetch cannot fault. `bytes`: a constant, so that the loop is unrolled.
[[gnu::always_inline]] inline void gemm_fetch(void const* from, std::int64_t bytes) {
  for (std::int64_t offset = 0; offset < bytes; offset += gemm_prefetch::line)
    __builtin_prefetch(static_cast<char const*>(from) + offset, 0, 3);
}

/// The prefetches that a micro-kernel makes every `gemm_prefetch::interval` rows: lines of the next block of B and,
/// unless `gemm_blocking::unrolled` is true, of its own micro-tile of C.
struct gemm_prefetches {
  gemm_prefetch b{}, c{};
};

} // namespace constrain::detail
