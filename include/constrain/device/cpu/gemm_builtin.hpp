#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/gemm_pack.hpp"
#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/vector.hpp"
#include "constrain/device/transpose.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Block sizes of the built-in GEMM for one element type and register width. A micro-tile of C, rows x columns, stays
/// in registers. A panel of B, depth x columns, stays in the L1 cache. tile_rows x depth elements of A and
/// depth x tile_columns elements of B are packed at a time. A block of A, block_rows x depth, and the packed B together
/// stay in the L2 cache.
template <class real, int bytes = vector_bytes> struct gemm_blocking : vector_of<real, bytes> {
  static constexpr int lanes = vector_of<real, bytes>::lanes;
  // Two vectors of B, one vector of A and the micro-tile fit into 32 registers with AVX-512, otherwise into 16.
  static constexpr int rows = bytes == 64 ? 14 : bytes == 32 ? 6 : 4;
  static constexpr int columns = 2 * lanes;
  // These sizes suit an L2 cache of 1 to 2 MiB with AVX-512, and of 512 KiB otherwise.
  static constexpr int depth = bytes == 64 ? 384 : 256;
  static constexpr int block_rows = 512 / sizeof(real) / rows * rows;
  static constexpr int tile_rows = (2048 / sizeof(real) + rows - 1) / rows * rows;
  static constexpr int tile_columns = 512 / sizeof(real);
  // Packing A may write up to `lanes` elements past the end.
  static constexpr int a_size = tile_rows * depth + lanes, b_size = depth * tile_columns;
  static_assert(tile_columns % columns == 0);
};

/// Each thread's packing buffer, and its size. The size is fixed, so that no GEMM allocates. The buffer consists of
/// bytes, so that all element types share it.
inline constexpr std::size_t gemm_buffer_bytes = 1008 * 1024;
alignas(64) inline constinit thread_local unsigned char gemm_buffer[gemm_buffer_bytes];

/// Splits `extent` into as few equal parts as possible, none larger than `most`. Returns the size of a part, rounded up
/// to a multiple of `multiple`.
constexpr std::int64_t gemm_share(std::int64_t extent, std::int64_t most, std::int64_t multiple) {
  std::int64_t const parts = (extent - 1) / most + 1;
  return ((extent - 1) / parts / multiple + 1) * multiple;
}

/// The scalars in c = alpha a b + beta c.
template <class real> struct gemm_scales { real alpha, beta; };

/// The micro-kernel: c = alpha a b + beta c for one micro-tile of sizeof...(row) rows, or c = alpha a b if `read_c` is
/// false. a: [k, blocking::rows], packed; b: [k, blocking::columns], with rows b_step elements apart. The function is
/// not inlined, and only sums and operands are live in its loop, since one more live value would spill a register.
template <bool read_c, class real, class blocking = gemm_blocking<real>, std::size_t... row>
[[gnu::noinline]] void gemm_micro(std::index_sequence<row...>, std::int64_t k, real const* a, real const* b,
                                  std::int64_t b_step, gemm_scales<real> const& scales, real* c, std::int64_t ldc) {
  using vector = typename blocking::vector;
  using unaligned = typename blocking::unaligned;
  constexpr int lanes = blocking::lanes;
  // Prefetches the rows of C, at most two cache lines each, so that they are in the cache when the sums are done.
  for (std::size_t i = 0; i < sizeof...(row); ++i) {
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * ldc, 1);
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * ldc + 2 * lanes - 1, 1);
  }
  vector left[sizeof...(row)] = {}, right[sizeof...(row)] = {};
  for (std::int64_t p = 0; p < k; ++p, a += blocking::rows) {
    vector const b_left = *reinterpret_cast<unaligned const*>(b);
    vector const b_right = *reinterpret_cast<unaligned const*>(b + lanes);
    // The address is advanced before the sums: otherwise g++ would load B from memory again for every row.
    b += b_step;
    ((left[row] += a[row] * b_left, right[row] += a[row] * b_right), ...);
  }
  // Makes the compiler compute C's addresses here, instead of keeping them in registers during the loop.
  asm("" : "+r"(c), "+r"(ldc));
  real const alpha = scales.alpha, beta = scales.beta;
  auto const store = [&](vector const& sum, real* at) {
    auto& target = *reinterpret_cast<unaligned*>(at);
    if constexpr (read_c) target = alpha * sum + beta * target;
    else target = alpha * sum;
  };
  ((store(left[row], c + row * ldc), store(right[row], c + row * ldc + lanes)), ...);
}

/// `gemm_micro` for an incomplete micro-tile, rows x columns: the same arithmetic on a copy of C.
template <bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_edge(std::int64_t rows, std::int64_t columns, std::int64_t k, real const* a, real const* b,
               std::int64_t b_step, gemm_scales<real> const& scales, real* c, std::int64_t ldc) {
  alignas(64) real copy[blocking::rows * blocking::columns] = {};
  if constexpr (read_c)
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(c + i * ldc, columns, copy + i * blocking::columns);
  if (rows == 1) gemm_micro<read_c>(std::make_index_sequence<1>{}, k, a, b, b_step, scales, copy, blocking::columns);
  else if (rows <= blocking::rows / 2)
    gemm_micro<read_c>(std::make_index_sequence<blocking::rows / 2>{}, k, a, b, b_step, scales, copy,
                       blocking::columns);
  else gemm_micro<read_c>(std::make_index_sequence<blocking::rows>{}, k, a, b, b_step, scales, copy, blocking::columns);
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(copy + i * blocking::columns, columns, c + i * ldc);
}

/// Prefetches into the L2 cache the rows of B that are needed next, while the current rows are multiplied.
struct gemm_ahead {
  char const* row = nullptr;
  std::int64_t rows = 0, stride = 0, row_bytes = 0; // `stride`: bytes from one row to the next
  std::int64_t lines_per_fetch = 0, at = 0;         // `at`: bytes of the current row already fetched

  static constexpr std::int64_t line = 64; // bytes of a cache line
  /// Spreads all cache lines over `calls` calls to `fetch`.
  void share_among(std::int64_t calls) { lines_per_fetch = rows * ((row_bytes - 1) / line + 1) / calls + 1; }
  /// Prefetches the next cache lines.
  void fetch() {
    for (std::int64_t i = 0; i < lines_per_fetch && rows > 0; ++i) {
      __builtin_prefetch(row + at, 0, 2);
      if ((at += line) >= row_bytes) at = 0, row += stride, --rows;
    }
  }
};

/// c = alpha a b + beta c for packed panels of A. The panels of B are b_panel elements apart; in a panel, rows are
/// b_step elements apart.
template <bool read_c, class real, class blocking = gemm_blocking<real>>
void gemm_panels(std::int64_t rows, std::int64_t columns, std::int64_t k, real const* a, real const* b,
                 std::int64_t b_step, std::int64_t b_panel, gemm_scales<real> const& scales, real* c, std::int64_t ldc,
                 gemm_ahead& ahead) {
  for (std::int64_t j = 0; j < columns; j += blocking::columns, b += b_panel)
    for (std::int64_t i = 0; i < rows; i += blocking::rows) {
      std::int64_t const height = std::min<std::int64_t>(rows - i, blocking::rows);
      std::int64_t const width = std::min<std::int64_t>(columns - j, blocking::columns);
      real* const at = c + i * ldc + j;
      ahead.fetch();
      if (height == blocking::rows && width == blocking::columns)
        gemm_micro<read_c>(std::make_index_sequence<blocking::rows>{}, k, a + i * k, b, b_step, scales, at, ldc);
      else gemm_edge<read_c>(height, width, k, a + i * k, b, b_step, scales, at, ldc);
    }
}

/// Computes one thread's tile of C; a and b point to the tile's first row of A and first column of B.
template <class a_type, class b_type, class real, class blocking = gemm_blocking<real>>
void gemm_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns, std::int64_t k,
               real alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb, real beta, real* c,
               std::int64_t ldc) {
  auto* const packed_a = reinterpret_cast<real*>(gemm_buffer);
  auto* const packed_b = packed_a + blocking::a_size;
  // With few rows, packing B costs more time than it saves. In this case, B is read in place if it needs no conversion
  // and no transposition, except in a block that ends with an incomplete panel.
  bool const direct = std::is_same_v<b_type, real> && b_transposed == transpose::no && rows <= 2 * blocking::rows;
  auto const tile_rows = gemm_share(rows, blocking::tile_rows, blocking::rows);
  auto const block_rows = gemm_share(std::min(rows, tile_rows), blocking::block_rows, blocking::rows);
  auto const part_of_b = [&](std::int64_t p, std::int64_t j) {
    auto const depth = std::min<std::int64_t>(blocking::depth, k - p),
               width = std::min<std::int64_t>(blocking::tile_columns, columns - j);
    bool const across = b_transposed == transpose::yes;
    constexpr auto size = static_cast<std::int64_t>(sizeof(b_type));
    return gemm_ahead{.row = reinterpret_cast<char const*>(across ? b + j * ldb + p : b + p * ldb + j),
                      .rows = across ? width : depth,
                      .stride = ldb * size,
                      .row_bytes = (across ? depth : width) * size};
  };
  for (std::int64_t top = 0; top < rows; top += tile_rows) {
    auto const height = std::min(tile_rows, rows - top);
    std::int64_t p = 0;
    do { // at least once: for k = 0, C must still be scaled
      auto const depth = std::min<std::int64_t>(blocking::depth, k - p);
      if (a_transposed == transpose::yes)
        gemm_pack<blocking::rows, true>(a + p * lda + top, lda, height, depth, packed_a);
      else gemm_pack<blocking::rows, false>(a + top * lda + p, lda, height, depth, packed_a);
      for (std::int64_t j = 0; j < columns; j += blocking::tile_columns) {
        auto const width = std::min<std::int64_t>(blocking::tile_columns, columns - j);
        bool const in_place = direct && width % blocking::columns == 0;
        real const* from_b = packed_b;
        if constexpr (std::is_same_v<b_type, real>)
          if (in_place) from_b = b + p * ldb + j;
        if (b_transposed == transpose::yes)
          gemm_pack<blocking::columns, false>(b + j * ldb + p, ldb, width, depth, packed_b);
        else if (!in_place) gemm_pack<blocking::columns, true>(b + p * ldb + j, ldb, width, depth, packed_b);
        gemm_ahead ahead = j + width < columns ? part_of_b(p, j + width)
                           : p + depth < k     ? part_of_b(p + depth, 0)
                                               : gemm_ahead{};
        ahead.share_among(((height - 1) / blocking::rows + 1) * ((width - 1) / blocking::columns + 1));
        auto const multiply = [&](auto read_c, real scale) {
          for (std::int64_t i = 0; i < height; i += block_rows)
            gemm_panels<read_c>(std::min(block_rows, height - i), width, depth, packed_a + i * depth, from_b,
                                in_place ? ldb : blocking::columns,
                                in_place ? blocking::columns : blocking::columns * depth, {alpha, scale},
                                c + (top + i) * ldc + j, ldc, ahead);
        };
        if (p == 0 && beta == real{}) multiply(std::false_type{}, beta);
        else multiply(std::true_type{}, p == 0 ? beta : real{1});
      }
      p += depth;
    } while (p < k);
  }
}

/// Each thread's buffer for the float sums of one tile of a 16-bit C, and the maximum numbers of rows and columns of
/// the tile.
inline constexpr std::int64_t gemm_narrow_rows = gemm_blocking<float>::tile_rows, gemm_narrow_columns = 256;
alignas(64) inline constinit thread_local float gemm_narrow_buffer[gemm_narrow_rows * gemm_narrow_columns];

/// `gemm_tile` for a C of 16-bit elements: accumulates in float and rounds once.
template <class a_type, class b_type, class c_type>
void gemm_narrow_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns,
                      std::int64_t k, float alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb,
                      float beta, c_type* c, std::int64_t ldc) {
  using blocking = gemm_blocking<float>;
  auto const tile_rows = gemm_share(rows, gemm_narrow_rows, blocking::rows);
  auto const tile_columns = gemm_share(columns, gemm_narrow_columns, blocking::columns);
  for (std::int64_t j = 0; j < columns; j += tile_columns)
    for (std::int64_t i = 0; i < rows; i += tile_rows) {
      auto const height = std::min(tile_rows, rows - i), width = std::min(tile_columns, columns - j);
      float* const sums = gemm_narrow_buffer;
      gemm_tile(a_transposed, b_transposed, height, width, k, alpha, a + (a_transposed == transpose::yes ? i : i * lda),
                lda, b + (b_transposed == transpose::yes ? j * ldb : j), ldb, 0.0f, sums, width);
      for (std::int64_t row = 0; row < height; ++row) {
        c_type* const to = c + (i + row) * ldc + j;
        float const* const from = sums + row * width;
        if (beta == 0) simd_loop(width, [=](std::int64_t x) { to[x] = from[x]; });
        else simd_loop(width, [=](std::int64_t x) { to[x] = from[x] + beta * to[x]; });
      }
    }
}

} // namespace detail

/// C = alpha op(A) op(B) + beta C; arguments as in `gemm` (gemm.hpp). Packing and blocking follow K. Goto, R. van de
/// Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. Every element of C is summed in the order of k,
/// whatever its position, so its bits depend neither on the number of threads nor on m and n. Does not allocate.
template <class a_type, class b_type, class c_type, class real = arithmetic<c_type>>
void gemm_builtin(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                  std::type_identity_t<real> alpha, a_type const* a, std::int64_t lda, b_type const* b,
                  std::int64_t ldb, std::type_identity_t<real> beta, c_type* c, std::int64_t ldc) {
  static_assert(std::is_same_v<arithmetic<a_type>, real> && std::is_same_v<arithmetic<b_type>, real> &&
                    (std::is_same_v<real, float> || std::is_same_v<real, double>),
                "gemm: the built-in GEMM multiplies f16, bf16 and float, also mixed, or double with double; cast "
                "other types first");
  using blocking = detail::gemm_blocking<real>;
  static_assert((blocking::a_size + blocking::b_size) * sizeof(real) <= detail::gemm_buffer_bytes);
  if (m <= 0 || n <= 0) return;
  if (alpha == real{}) k = 0;

  // Each thread computes at most one tile. The loop below chooses the grid whose tiles cost least. Packing one
  // element costs about as much as ten multiply-adds.
  std::int64_t rows = 0, columns = 0, least = std::numeric_limits<std::int64_t>::max();
  std::int64_t const threads = thread_count();
  for (std::int64_t down = 1; down <= threads; ++down) {
    auto const height = detail::gemm_share(m, (m - 1) / down + 1, blocking::rows);
    auto const width = detail::gemm_share(n, (n - 1) / (threads / down) + 1, blocking::columns);
    auto const cost = height * width + 10 * (height + width);
    if (cost < least) least = cost, rows = height, columns = width;
  }
  std::int64_t const down = (m - 1) / rows + 1, across = (n - 1) / columns + 1;
  parallel_for(down * across, [&](std::int64_t index) {
    std::int64_t const i = index % down * rows, j = index / down * columns;
    auto const* const from_a = a + (a_transposed == transpose::yes ? i : i * lda);
    auto const* const from_b = b + (b_transposed == transpose::yes ? j * ldb : j);
    if constexpr (std::is_same_v<c_type, real>)
      detail::gemm_tile(a_transposed, b_transposed, std::min(rows, m - i), std::min(columns, n - j), k, alpha, from_a,
                        lda, from_b, ldb, beta, c + i * ldc + j, ldc);
    else
      detail::gemm_narrow_tile(a_transposed, b_transposed, std::min(rows, m - i), std::min(columns, n - j), k, alpha,
                               from_a, lda, from_b, ldb, beta, c + i * ldc + j, ldc);
  });
}

} // namespace constrain
