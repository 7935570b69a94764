#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/vector.hpp"
#include "constrain/device/transpose.hpp"
#include "constrain/program/dtype.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The sizes of the packed product for one element type and register width.
/// A micro-tile of C, rows x columns, stays in registers. tile_rows x depth of A and depth x tile_columns of B are
/// packed at a time, to stay in the second-level cache.
template <class real, int bytes = vector_bytes>
struct gemm_blocking : vector_of<real, bytes> {
  static constexpr int lanes = vector_of<real, bytes>::lanes;
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
alignas(64) inline constinit thread_local unsigned char gemm_buffer[gemm_buffer_bytes];

/// Packs a [extent, k] operand into panels of `width` along the extent, each k-major, the last filled up with zeros.
/// Element (i, p) is at source[i * stride + p], or, where `along_extent`, at source[p * stride + i].
/// 16-bit elements are widened on the way.
template <int width, bool along_extent, class stored, class real>
void gemm_pack(stored const* source, std::int64_t stride, std::int64_t extent, std::int64_t k, real* out) {
  for (std::int64_t first = 0; first < extent; first += width, out += width * k) {
    std::int64_t const valid = std::min<std::int64_t>(width, extent - first);
    if constexpr (along_extent) {
      for (std::int64_t p = 0; p < k; ++p) {
        stored const* const from = source + p * stride + first;
        real* const to = out + p * width;
        if (valid == width)
          for (int i = 0; i < width; ++i) to[i] = from[i];
        else
          for (int i = 0; i < width; ++i) to[i] = i < valid ? real(from[i]) : real{};
      }
    } else {
      constexpr int block = 16; // keeps what is written in the first-level cache
      for (std::int64_t p = 0; p < k; p += block) {
        std::int64_t const count = std::min<std::int64_t>(block, k - p);
        real* const to = out + p * width;
        for (int i = 0; i < width; ++i) {
          stored const* const from = source + (first + i) * stride + p;
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

/// c = alpha a b + beta c for one micro-tile of `rows` rows; a: [k, blocking::rows], packed; b: [k, blocking::columns],
/// its rows b_step apart.
template <int rows, bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_micro(std::int64_t k, real const* a, real const* b, std::int64_t b_step, real alpha, real beta, real* c,
                std::int64_t ldc) {
  using vector = typename blocking::vector;
  using unaligned = typename blocking::unaligned;
  constexpr int lanes = blocking::lanes;
  [&]<std::size_t... row>(std::index_sequence<row...>) {
    vector left[rows] = {}, right[rows] = {};
    for (std::int64_t p = 0; p < k; ++p, a += blocking::rows, b += b_step) {
      vector const b_left = *reinterpret_cast<unaligned const*>(b);
      vector const b_right = *reinterpret_cast<unaligned const*>(b + lanes);
      ((left[row] += a[row] * b_left, right[row] += a[row] * b_right), ...);
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

/// gemm_micro for the upper left rows x columns of a micro-tile: the same arithmetic, on a copy.
template <bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_edge(std::int64_t rows, std::int64_t columns, std::int64_t k, real const* a, real const* b,
               std::int64_t b_step, real alpha, real beta, real* c, std::int64_t ldc) {
  alignas(64) real copy[blocking::rows * blocking::columns] = {};
  if constexpr (read_c)
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(c + i * ldc, columns, copy + i * blocking::columns);
  if (rows == 1)
    gemm_micro<1, read_c>(k, a, b, b_step, alpha, beta, copy, blocking::columns);
  else if (rows <= blocking::rows / 2)
    gemm_micro<blocking::rows / 2, read_c>(k, a, b, b_step, alpha, beta, copy, blocking::columns);
  else
    gemm_micro<blocking::rows, read_c>(k, a, b, b_step, alpha, beta, copy, blocking::columns);
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(copy + i * blocking::columns, columns, c + i * ldc);
}

/// c = alpha a b + beta c for the packed panels of A and panels of B that are b_panel apart, their rows b_step apart.
template <bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_panels(std::int64_t rows, std::int64_t columns, std::int64_t k, real const* a, real const* b,
                 std::int64_t b_step, std::int64_t b_panel, real alpha, real beta, real* c, std::int64_t ldc) {
  for (std::int64_t j = 0; j < columns; j += blocking::columns, b += b_panel)
    for (std::int64_t i = 0; i < rows; i += blocking::rows) {
      std::int64_t const height = std::min<std::int64_t>(rows - i, blocking::rows);
      std::int64_t const width = std::min<std::int64_t>(columns - j, blocking::columns);
      real* const at = c + i * ldc + j;
      if (height == blocking::rows && width == blocking::columns)
        gemm_micro<blocking::rows, read_c>(k, a + i * k, b, b_step, alpha, beta, at, ldc);
      else
        gemm_edge<read_c>(height, width, k, a + i * k, b, b_step, alpha, beta, at, ldc);
    }
}

/// One thread's tile of C; its columns are at most tile_columns. a and b point at its first row and column.
template <class a_type, class b_type, class real, class blocking = gemm_blocking<real>>
void gemm_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns, std::int64_t k,
               real alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb, real beta, real* c,
               std::int64_t ldc) {
  auto* const packed_a = reinterpret_cast<real*>(gemm_buffer);
  auto* const packed_b = packed_a + blocking::a_size;
  // Too few rows would not pay for the packing of B: it is read where it lies, but for an incomplete last panel.
  bool const direct = std::is_same_v<b_type, real> && b_transposed == transpose::no && rows <= 2 * blocking::rows;
  std::int64_t const in_place = direct ? columns / blocking::columns * blocking::columns : 0;
  std::int64_t p = 0;
  do { // once even where k is 0: C is still scaled
    std::int64_t const depth = std::min<std::int64_t>(blocking::depth, k - p);
    if (b_transposed == transpose::yes)
      gemm_pack<blocking::columns, false>(b + p, ldb, columns, depth, packed_b);
    else
      gemm_pack<blocking::columns, true>(b + p * ldb + in_place, ldb, columns - in_place, depth, packed_b);
    for (std::int64_t i = 0; i < rows; i += blocking::tile_rows) {
      std::int64_t const height = std::min<std::int64_t>(blocking::tile_rows, rows - i);
      if (a_transposed == transpose::yes)
        gemm_pack<blocking::rows, true>(a + p * lda + i, lda, height, depth, packed_a);
      else
        gemm_pack<blocking::rows, false>(a + i * lda + p, lda, height, depth, packed_a);
      auto const multiply = [&](auto read_c, real scale) {
        if constexpr (std::is_same_v<b_type, real>)
          gemm_panels<read_c>(height, in_place, depth, packed_a, b + p * ldb, ldb, blocking::columns, alpha, scale,
                              c + i * ldc, ldc);
        gemm_panels<read_c>(height, columns - in_place, depth, packed_a, packed_b, blocking::columns,
                            blocking::columns * depth, alpha, scale, c + i * ldc + in_place, ldc);
      };
      if (p == 0 && beta == real{})
        multiply(std::false_type{}, beta);
      else
        multiply(std::true_type{}, p == 0 ? beta : real{1});
    }
    p += depth;
  } while (p < k);
}

/// The sums of a tile of C whose elements are narrower than its sums.
template <class real> inline constexpr int gemm_narrow_size = gemm_blocking<real>::tile_rows * gemm_blocking<real>::tile_columns;
alignas(64) inline constinit thread_local float gemm_narrow_buffer[gemm_narrow_size<float>];

/// gemm_tile for a C of 16-bit elements: sums in float, rounded once.
template <class a_type, class b_type, class c_type, class blocking = gemm_blocking<float>>
void gemm_narrow_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns, std::int64_t k,
                      float alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb, float beta, c_type* c,
                      std::int64_t ldc) {
  for (std::int64_t i = 0; i < rows; i += blocking::tile_rows) {
    auto const height = std::min<std::int64_t>(blocking::tile_rows, rows - i);
    float* const sums = gemm_narrow_buffer;
    gemm_tile(a_transposed, b_transposed, height, columns, k, alpha, a + (a_transposed == transpose::yes ? i : i * lda), lda, b,
              ldb, 0.0f, sums, columns);
    for (std::int64_t row = 0; row < height; ++row) {
      c_type* const to = c + (i + row) * ldc;
      float const* const from = sums + row * columns;
      if (beta == 0)
        for (std::int64_t j = 0; j < columns; ++j) to[j] = from[j];
      else
        for (std::int64_t j = 0; j < columns; ++j) to[j] = from[j] + beta * to[j];
    }
  }
}

} // namespace detail

/// C = alpha op(A) op(B) + beta C, as `gemm` states it. Packed and blocked after K. Goto, R. van de Geijn, "Anatomy of
/// High-Performance Matrix Multiplication", 2008. Every element of C is one sum in the order of k, whatever its place
/// in C, so its bits depend neither on the number of threads nor on m and n. Allocates nothing.
template <class a_type, class b_type, class c_type, class real = arithmetic<c_type>>
void gemm_builtin(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                  std::type_identity_t<real> alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb,
                  std::type_identity_t<real> beta, c_type* c, std::int64_t ldc) {
  static_assert(std::is_same_v<arithmetic<a_type>, real> && std::is_same_v<arithmetic<b_type>, real> &&
                    (std::is_same_v<real, float> || std::is_same_v<real, double>),
                "gemm: the built-in product multiplies bf16, float and double, the latter alone; cast other types first.");
  using blocking = detail::gemm_blocking<real>;
  static_assert((blocking::a_size + blocking::b_size) * sizeof(real) <= detail::gemm_buffer_bytes);
  if (m <= 0 || n <= 0) return;
  if (alpha == real{}) k = 0;

  // Whole columns of tiles for one thread; for several, halved along the longer side until there is work for all.
  auto const share = [](std::int64_t extent, std::int64_t parts, std::int64_t multiple) {
    return ((extent - 1) / parts / multiple + 1) * multiple;
  };
  std::int64_t down = 1, across = (n - 1) / blocking::tile_columns + 1;
  std::int64_t rows = share(m, down, blocking::rows), columns = share(n, across, blocking::columns);
  int const threads = thread_count();
  while (threads > 1 && down * across < 2 * threads) {
    if (rows > blocking::rows && rows >= columns)
      rows = share(m, down *= 2, blocking::rows);
    else if (columns > blocking::columns)
      columns = share(n, across *= 2, blocking::columns);
    else
      break;
  }
  down = (m - 1) / rows + 1; // rounding up may have left some without any
  across = (n - 1) / columns + 1;
  parallel_for(down * across, [&](std::int64_t index) {
    std::int64_t const i = index % down * rows, j = index / down * columns;
    auto const* const from_a = a + (a_transposed == transpose::yes ? i : i * lda);
    auto const* const from_b = b + (b_transposed == transpose::yes ? j * ldb : j);
    if constexpr (std::is_same_v<c_type, real>)
      detail::gemm_tile(a_transposed, b_transposed, std::min(rows, m - i), std::min(columns, n - j), k, alpha, from_a, lda,
                        from_b, ldb, beta, c + i * ldc + j, ldc);
    else
      detail::gemm_narrow_tile(a_transposed, b_transposed, std::min(rows, m - i), std::min(columns, n - j), k, alpha, from_a,
                               lda, from_b, ldb, beta, c + i * ldc + j, ldc);
  });
}

} // namespace constrain
