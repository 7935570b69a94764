#pragma once

#include "constrain/device/cpu/parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace constrain {

/// Whether a stored matrix enters a product as it is or transposed.
enum class transpose : bool { no, yes };

namespace detail {

// The widest register of the target, in bytes.
#if defined(__AVX512F__)
inline constexpr int gemm_vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int gemm_vector_bytes = 32;
#else
inline constexpr int gemm_vector_bytes = 16;
#endif

/// The sizes of the packed product for one element type and register width.
/// A micro-tile of C, rows x columns, stays in registers; a tile, tile_rows x tile_columns, is one thread's work;
/// `depth` is how much of k is packed at a time.
template <class real, int bytes = gemm_vector_bytes>
struct gemm_blocking {
  typedef real vector __attribute__((vector_size(bytes)));
  typedef real unaligned __attribute__((vector_size(bytes), aligned(alignof(real)), may_alias));
  static constexpr int lanes = bytes / static_cast<int>(sizeof(real));
  static constexpr int rows = bytes == 64 ? 14 : bytes == 32 ? 6 : 4; // 32 or 16 registers: tile, two of B, one of A
  static constexpr int columns = 2 * lanes;
  static constexpr int depth = 256;
  static constexpr int tile_rows = (sizeof(real) == 4 ? 144 : 96) / rows * rows;
  static constexpr int tile_columns = sizeof(real) == 4 ? 256 : 128;
  static constexpr int a_size = tile_rows * depth, b_size = depth * tile_columns;
  static_assert(tile_columns % columns == 0);
};

/// Per thread, static: no product allocates. Bytes, so that every element type shares them.
inline constexpr std::size_t gemm_buffer_bytes = 448 * 1024;
alignas(64) inline thread_local unsigned char gemm_buffer[gemm_buffer_bytes];

/// Packs a [extent, k] operand into panels of `width` along the extent, each k-major, the last filled up with zeros.
/// Element (i, p) is at source[i * stride + p], or, where `along_extent`, at source[p * stride + i].
template <int width, bool along_extent, class real>
void gemm_pack(real const* source, std::int64_t stride, std::int64_t extent, std::int64_t k, real* out) {
  for (std::int64_t first = 0; first < extent; first += width, out += width * k) {
    std::int64_t const valid = std::min<std::int64_t>(width, extent - first);
    if constexpr (along_extent) {
      for (std::int64_t p = 0; p < k; ++p) {
        real const* const from = source + p * stride + first;
        real* const to = out + p * width;
        if (valid == width)
          for (int i = 0; i < width; ++i) to[i] = from[i];
        else
          for (int i = 0; i < width; ++i) to[i] = i < valid ? from[i] : real{};
      }
    } else {
      constexpr int block = 16; // keeps what is written in the first-level cache
      for (std::int64_t p = 0; p < k; p += block) {
        std::int64_t const count = std::min<std::int64_t>(block, k - p);
        real* const to = out + p * width;
        for (int i = 0; i < width; ++i) {
          real const* const from = source + (first + i) * stride + p;
          if (i >= valid)
            for (std::int64_t q = 0; q < count; ++q) to[q * width + i] = real{};
          else if (count == block)
            for (int q = 0; q < block; ++q) to[q * width + i] = from[q];
          else
            for (std::int64_t q = 0; q < count; ++q) to[q * width + i] = from[q];
        }
      }
    }
  }
}

/// c = alpha a b + beta c for one micro-tile; a: [k, rows] and b: [k, columns], packed.
template <bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_micro(std::int64_t k, real const* a, real const* b, real alpha, real beta, real* c, std::int64_t ldc) {
  using vector = typename blocking::vector;
  using unaligned = typename blocking::unaligned;
  constexpr int rows = blocking::rows, lanes = blocking::lanes;
  [&]<std::size_t... row>(std::index_sequence<row...>) {
    vector left[rows] = {}, right[rows] = {};
    for (std::int64_t p = 0; p < k; ++p) {
      vector const b_left = *reinterpret_cast<unaligned const*>(b);
      vector const b_right = *reinterpret_cast<unaligned const*>(b + lanes);
      ((left[row] += a[row] * b_left, right[row] += a[row] * b_right), ...);
      a += rows;
      b += 2 * lanes;
    }
    auto const store = [&](vector const& sum, real* at) {
      auto& target = *reinterpret_cast<unaligned*>(at);
      if constexpr (read_c)
        target = alpha * sum + beta * target;
      else
        target = alpha * sum;
    };
    ((store(left[row], c + row * ldc), store(right[row], c + row * ldc + lanes)), ...);
  }(std::make_index_sequence<rows>{});
}

/// gemm_micro on the upper left rows x columns of a micro-tile: the same arithmetic, on a copy.
template <bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_edge(std::int64_t rows, std::int64_t columns, std::int64_t k, real const* a, real const* b, real alpha,
               real beta, real* c, std::int64_t ldc) {
  alignas(64) real copy[blocking::rows * blocking::columns] = {};
  if constexpr (read_c)
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(c + i * ldc, columns, copy + i * blocking::columns);
  gemm_micro<read_c>(k, a, b, alpha, beta, copy, blocking::columns);
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(copy + i * blocking::columns, columns, c + i * ldc);
}

/// One tile of C, from the packed panels of A and B.
template <bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_tile(std::int64_t rows, std::int64_t columns, std::int64_t k, real const* a, real const* b, real alpha,
               real beta, real* c, std::int64_t ldc) {
  for (std::int64_t j = 0; j < columns; j += blocking::columns)
    for (std::int64_t i = 0; i < rows; i += blocking::rows) {
      real* const at = c + i * ldc + j;
      if (rows - i >= blocking::rows && columns - j >= blocking::columns)
        gemm_micro<read_c>(k, a + i * k, b + j * k, alpha, beta, at, ldc);
      else
        gemm_edge<read_c>(std::min<std::int64_t>(rows - i, blocking::rows),
                          std::min<std::int64_t>(columns - j, blocking::columns), k, a + i * k, b + j * k, alpha, beta,
                          at, ldc);
    }
}

} // namespace detail

/// C = alpha op(A) op(B) + beta C, as `gemm` states it. Packed and blocked after K. Goto, R. van de Geijn, "Anatomy of
/// High-Performance Matrix Multiplication", 2008. Every element of C is one sum in the order of k, whatever its place in
/// C, so the bits depend neither on the number of threads nor on m and n. Allocates nothing.
template <class real>
void gemm_builtin(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                  real alpha, real const* a, std::int64_t lda, real const* b, std::int64_t ldb, real beta, real* c,
                  std::int64_t ldc) {
  static_assert(std::is_floating_point_v<real>, "the built-in product multiplies float and double");
  using blocking = detail::gemm_blocking<real>;
  static_assert((blocking::a_size + blocking::b_size) * sizeof(real) <= detail::gemm_buffer_bytes);
  if (m <= 0 || n <= 0) return;
  if (alpha == real{}) k = 0;

  // Smaller tiles where there would be too few for the threads; the sums stay the same.
  std::int64_t tile_rows = blocking::tile_rows, tile_columns = blocking::tile_columns;
  auto const blocks = [](std::int64_t extent, std::int64_t size) { return (extent - 1) / size + 1; };
  int const threads = thread_count();
  while (threads > 1 && blocks(m, tile_rows) * blocks(n, tile_columns) < 2 * threads) {
    if (tile_columns > 2 * blocking::columns && tile_columns >= tile_rows)
      tile_columns /= 2;
    else if (tile_rows > 2 * blocking::rows)
      tile_rows = (tile_rows / blocking::rows + 1) / 2 * blocking::rows;
    else
      break;
  }
  std::int64_t const across = blocks(n, tile_columns), tiles = across * blocks(m, tile_rows);

  auto const tile = [&](std::int64_t index) {
    std::int64_t const i = index / across * tile_rows, j = index % across * tile_columns;
    std::int64_t const rows = std::min(tile_rows, m - i), columns = std::min(tile_columns, n - j);
    auto* const packed_a = reinterpret_cast<real*>(detail::gemm_buffer);
    auto* const packed_b = packed_a + blocking::a_size;
    std::int64_t p = 0;
    do {
      std::int64_t const depth = std::min<std::int64_t>(blocking::depth, k - p);
      if (a_transposed == transpose::yes)
        detail::gemm_pack<blocking::rows, true>(a + p * lda + i, lda, rows, depth, packed_a);
      else
        detail::gemm_pack<blocking::rows, false>(a + i * lda + p, lda, rows, depth, packed_a);
      if (b_transposed == transpose::yes)
        detail::gemm_pack<blocking::columns, false>(b + j * ldb + p, ldb, columns, depth, packed_b);
      else
        detail::gemm_pack<blocking::columns, true>(b + p * ldb + j, ldb, columns, depth, packed_b);
      real* const at = c + i * ldc + j;
      if (p == 0 && beta == real{})
        detail::gemm_tile<false>(rows, columns, depth, packed_a, packed_b, alpha, beta, at, ldc);
      else
        detail::gemm_tile<true>(rows, columns, depth, packed_a, packed_b, alpha, p == 0 ? beta : real{1}, at, ldc);
      p += depth;
    } while (p < k);
  };
  parallel_for(tiles, tile);
}

} // namespace constrain
