#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/gemm_pack.hpp"
#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/vector.hpp"
#include "constrain/device/transpose.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The type of the sums over products of packed elements.
template <class packed> using sum_of = std::conditional_t<std::is_same_v<packed, bfloat16_pair>, float, packed>;

/// Block sizes of the built-in GEMM for one type of packed elements and register width. A micro-tile of C, rows x
/// columns, stays in registers. A panel of B, depth x columns, stays in the L1 cache. tile_rows x depth elements of A
/// and depth x tile_columns elements of B are packed at a time. A block of A, block_rows x depth, and the packed B
/// together stay in the L2 cache.
template <class packed, int bytes = vector_bytes> struct gemm_blocking : vector_of<packed, bytes> {
  static constexpr int lanes = vector_of<packed, bytes>::lanes;
  // Two vectors of B, one vector of A and the micro-tile fit into 32 registers with AVX-512, otherwise into 16.
  static constexpr int rows = bytes == 64 ? 14 : bytes == 32 ? 6 : 4;
  static constexpr int columns = 2 * lanes;
  // These sizes suit an L2 cache of 1 to 2 MiB with AVX-512, and of 512 KiB otherwise.
  static constexpr int depth = bytes == 64 ? 384 : 256;
  static constexpr std::int64_t along_k = depth * elements_of<packed>; // elements of k in `depth`
  static constexpr int block_rows = 512 / sizeof(packed) / rows * rows;
  static constexpr int tile_rows = (2048 / sizeof(packed) + rows - 1) / rows * rows;
  static constexpr int tile_columns = 512 / sizeof(packed);
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

/// sum += a b
template <class real, class vector> [[gnu::always_inline]] inline void multiply_add(vector& sum, real a, vector b) {
  sum += a * b;
}
#if defined(__AVX512BF16__)
/// sum += the products of the first elements and of the second elements of the pairs, in fp32; subnormal numbers count
/// as 0.
[[gnu::always_inline]] inline void multiply_add(vector_of<float>::vector& sum, bfloat16_pair a,
                                                vector_of<bfloat16_pair>::vector b) {
  vector_of<bfloat16_pair>::vector const everywhere = a - vector_of<bfloat16_pair>::vector{};
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(b), "v"(everywhere));
}
#endif

/// The micro-kernel: c = alpha a b + beta c for one micro-tile of sizeof...(row) rows, or c = alpha a b if `read_c` is
/// false. a: [depth, blocking::rows], packed; b: [depth, blocking::columns], with rows b_step elements apart. The
/// function is not inlined, and only sums and operands are live in its loop, since one more live value would spill a
/// register.
template <bool read_c, class packed, class real = sum_of<packed>, class blocking = gemm_blocking<packed>,
          std::size_t... row>
[[gnu::noinline]] void gemm_micro(std::index_sequence<row...>, std::int64_t depth, packed const* a, packed const* b,
                                  std::int64_t b_step, gemm_scales<real> const& scales, real* c, std::int64_t ldc) {
  using vector = typename vector_of<real>::vector;
  using unaligned = typename vector_of<real>::unaligned;
  constexpr int lanes = blocking::lanes;
  // Prefetches the first and the last cache line of each row of C, so that they are in the cache after the sums.
  for (std::size_t i = 0; i < sizeof...(row); ++i) {
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * ldc, 1);
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * ldc + 2 * lanes - 1, 1);
  }
  vector left[sizeof...(row)] = {}, right[sizeof...(row)] = {};
  for (std::int64_t p = 0; p < depth; ++p, a += blocking::rows) {
    typename blocking::vector const b_left = *reinterpret_cast<typename blocking::unaligned const*>(b);
    typename blocking::vector const b_right = *reinterpret_cast<typename blocking::unaligned const*>(b + lanes);
    // The address is advanced before the sums: otherwise g++ would load B from memory again for every row.
    b += b_step;
    ((multiply_add(left[row], a[row], b_left), multiply_add(right[row], a[row], b_right)), ...);
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

/// Copies `count` elements, converting them to the type of `to`. With AVX512_BF16, subnormal numbers become 0 in bf16.
template <class from_type, class to_type>
inline void gemm_copy(from_type const* from, std::int64_t count, to_type* to) {
  std::int64_t done = 0;
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<from_type, float> && std::is_same_v<to_type, bfloat16>) {
    constexpr int lanes = vector_of<float>::lanes;
    typedef std::uint16_t narrow __attribute__((vector_size(2 * lanes)));
    for (; done + lanes <= count; done += lanes) {
      vector_of<float>::vector const x = *reinterpret_cast<vector_of<float>::unaligned const*>(from + done);
      narrow rounded;
      asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x));
      std::memcpy(static_cast<void*>(to + done), &rounded, sizeof rounded);
    }
  }
#endif
  simd_loop(count - done, [from = from + done, to = to + done](std::int64_t x) { to[x] = from[x]; });
}

/// `gemm_micro` for an incomplete micro-tile, rows x columns, or for another type of C: the same arithmetic on a copy of
/// C.
template <bool read_c, class packed, class c_type, class real = sum_of<packed>, class blocking = gemm_blocking<packed>>
void gemm_edge(std::int64_t rows, std::int64_t columns, std::int64_t depth, packed const* a, packed const* b,
               std::int64_t b_step, gemm_scales<real> const& scales, c_type* c, std::int64_t ldc) {
  alignas(64) real copy[blocking::rows * blocking::columns];
  if constexpr (read_c) {
    if (rows * columns < blocking::rows * blocking::columns) std::fill(std::begin(copy), std::end(copy), real{});
    for (std::int64_t i = 0; i < rows; ++i) gemm_copy(c + i * ldc, columns, copy + i * blocking::columns);
  }
  if (rows == 1)
    gemm_micro<read_c>(std::make_index_sequence<1>{}, depth, a, b, b_step, scales, copy, blocking::columns);
  else if (rows <= blocking::rows / 2)
    gemm_micro<read_c>(std::make_index_sequence<blocking::rows / 2>{}, depth, a, b, b_step, scales, copy,
                       blocking::columns);
  else
    gemm_micro<read_c>(std::make_index_sequence<blocking::rows>{}, depth, a, b, b_step, scales, copy,
                       blocking::columns);
  for (std::int64_t i = 0; i < rows; ++i) gemm_copy(copy + i * blocking::columns, columns, c + i * ldc);
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
template <bool read_c, class packed, class c_type, class real = sum_of<packed>, class blocking = gemm_blocking<packed>>
void gemm_panels(std::int64_t rows, std::int64_t columns, std::int64_t depth, packed const* a, packed const* b,
                 std::int64_t b_step, std::int64_t b_panel, gemm_scales<real> const& scales, c_type* c,
                 std::int64_t ldc, gemm_ahead& ahead) {
  for (std::int64_t j = 0; j < columns; j += blocking::columns, b += b_panel)
    for (std::int64_t i = 0; i < rows; i += blocking::rows) {
      std::int64_t const height = std::min<std::int64_t>(rows - i, blocking::rows);
      std::int64_t const width = std::min<std::int64_t>(columns - j, blocking::columns);
      c_type* const at = c + i * ldc + j;
      ahead.fetch();
      if constexpr (std::is_same_v<c_type, real>)
        if (height == blocking::rows && width == blocking::columns) {
          gemm_micro<read_c>(std::make_index_sequence<blocking::rows>{}, depth, a + i * depth, b, b_step, scales, at,
                             ldc);
          continue;
        }
      gemm_edge<read_c>(height, width, depth, a + i * depth, b, b_step, scales, at, ldc);
    }
}

/// Computes one thread's tile of C; a and b point to the tile's first row of A and first column of B. The operands are
/// packed as elements of type `packed`. With a 16-bit C, k is at most `blocking::along_k`, so that sums are rounded once.
template <class packed, class a_type, class b_type, class c_type, class real = sum_of<packed>,
          class blocking = gemm_blocking<packed>>
void gemm_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns, std::int64_t k,
               real alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb, real beta, c_type* c,
               std::int64_t ldc) {
  auto* const packed_a = reinterpret_cast<packed*>(gemm_buffer);
  auto* const packed_b = packed_a + blocking::a_size;
  // With few rows, packing B costs more time than it saves. In this case, B is read in place if it needs no conversion
  // and no transposition, except in a block that ends with an incomplete panel.
  bool const direct = std::is_same_v<b_type, packed> && b_transposed == transpose::no && rows <= 2 * blocking::rows;
  auto const tile_rows = gemm_share(rows, blocking::tile_rows, blocking::rows);
  auto const block_rows = gemm_share(std::min(rows, tile_rows), blocking::block_rows, blocking::rows);
  auto const part_of_b = [&](std::int64_t p, std::int64_t j) {
    auto const length = std::min(blocking::along_k, k - p),
               width = std::min<std::int64_t>(blocking::tile_columns, columns - j);
    bool const across = b_transposed == transpose::yes;
    constexpr auto size = static_cast<std::int64_t>(sizeof(b_type));
    return gemm_ahead{.row = reinterpret_cast<char const*>(across ? b + j * ldb + p : b + p * ldb + j),
                      .rows = across ? width : length,
                      .stride = ldb * size,
                      .row_bytes = (across ? length : width) * size};
  };
  for (std::int64_t top = 0; top < rows; top += tile_rows) {
    auto const height = std::min(tile_rows, rows - top);
    std::int64_t p = 0;
    do { // at least once: for k = 0, C must still be scaled
      auto const length = std::min(blocking::along_k, k - p);
      auto const depth = (length - 1 + elements_of<packed>) / elements_of<packed>;
      if (a_transposed == transpose::yes)
        gemm_pack<blocking::rows, true>(a + p * lda + top, lda, height, length, packed_a);
      else gemm_pack<blocking::rows, false>(a + top * lda + p, lda, height, length, packed_a);
      for (std::int64_t j = 0; j < columns; j += blocking::tile_columns) {
        auto const width = std::min<std::int64_t>(blocking::tile_columns, columns - j);
        bool const in_place = direct && width % blocking::columns == 0;
        packed const* from_b = packed_b;
        if constexpr (std::is_same_v<b_type, packed>)
          if (in_place) from_b = b + p * ldb + j;
        if (b_transposed == transpose::yes)
          gemm_pack<blocking::columns, false>(b + j * ldb + p, ldb, width, length, packed_b);
        else if (!in_place) gemm_pack<blocking::columns, true>(b + p * ldb + j, ldb, width, length, packed_b);
        gemm_ahead ahead = j + width < columns ? part_of_b(p, j + width)
                           : p + length < k    ? part_of_b(p + length, 0)
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
      p += length;
    } while (p < k);
  }
}

/// Each thread's buffer for the float sums of a tile of a 16-bit C.
inline constexpr std::int64_t gemm_sums_count = std::int64_t{gemm_blocking<float>::tile_rows} * 256;
alignas(64) inline constinit thread_local float gemm_sums[gemm_sums_count];

/// `gemm_tile` for a C of 16-bit elements and any k: accumulates in float and rounds once.
template <class packed, class a_type, class b_type, class c_type>
void gemm_narrow_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns,
                      std::int64_t k, float alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb,
                      float beta, c_type* c, std::int64_t ldc) {
  using blocking = gemm_blocking<packed>;
  if (k <= blocking::along_k)
    return gemm_tile<packed>(a_transposed, b_transposed, rows, columns, k, alpha, a, lda, b, ldb, beta, c, ldc);
  auto const tile_rows = gemm_share(rows, blocking::tile_rows, blocking::rows);
  auto const tile_columns =
      gemm_share(columns, gemm_sums_count / tile_rows / blocking::columns * blocking::columns, blocking::columns);
  for (std::int64_t j = 0; j < columns; j += tile_columns)
    for (std::int64_t i = 0; i < rows; i += tile_rows) {
      auto const height = std::min(tile_rows, rows - i), width = std::min(tile_columns, columns - j);
      gemm_tile<packed>(a_transposed, b_transposed, height, width, k, alpha,
                        a + (a_transposed == transpose::yes ? i : i * lda), lda,
                        b + (b_transposed == transpose::yes ? j * ldb : j), ldb, 0.0f, gemm_sums, width);
      for (std::int64_t row = 0; row < height; ++row) {
        c_type* const to = c + (i + row) * ldc + j;
        float* const from = gemm_sums + row * width;
        if (beta != 0) simd_loop(width, [=](std::int64_t x) { from[x] += beta * to[x]; });
        gemm_copy(from, width, to);
      }
    }
}

/// C = alpha op(A) op(B) + beta C for m, n > 0, with operands packed as elements of type `packed`. Each thread computes
/// at most one tile.
template <class packed, class a_type, class b_type, class c_type, class real = sum_of<packed>>
void gemm_packed(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                 real alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb, real beta, c_type* c,
                 std::int64_t ldc) {
  using blocking = gemm_blocking<packed>;
  static_assert((blocking::a_size + blocking::b_size) * sizeof(packed) <= gemm_buffer_bytes);
  // The loop below chooses the grid whose tiles cost least. Packing one element costs about as much as ten
  // multiply-adds.
  std::int64_t rows = 0, columns = 0, least = std::numeric_limits<std::int64_t>::max();
  std::int64_t const threads = thread_count();
  for (std::int64_t down = 1; down <= threads; ++down) {
    auto const height = gemm_share(m, (m - 1) / down + 1, blocking::rows);
    auto const width = gemm_share(n, (n - 1) / (threads / down) + 1, blocking::columns);
    auto const cost = height * width + 10 * (height + width);
    if (cost < least) least = cost, rows = height, columns = width;
  }
  std::int64_t const down = (m - 1) / rows + 1, across = (n - 1) / columns + 1;
  parallel_for(down * across, [&](std::int64_t index) {
    std::int64_t const i = index % down * rows, j = index / down * columns;
    auto const* const from_a = a + (a_transposed == transpose::yes ? i : i * lda);
    auto const* const from_b = b + (b_transposed == transpose::yes ? j * ldb : j);
    auto const height = std::min(rows, m - i), width = std::min(columns, n - j);
    if constexpr (std::is_same_v<c_type, real>)
      gemm_tile<packed>(a_transposed, b_transposed, height, width, k, alpha, from_a, lda, from_b, ldb, beta,
                        c + i * ldc + j, ldc);
    else
      gemm_narrow_tile<packed>(a_transposed, b_transposed, height, width, k, alpha, from_a, lda, from_b, ldb, beta,
                               c + i * ldc + j, ldc);
  });
}

/// Whether vdpbf16ps does more multiply-adds per second than fp32's instruction. It does twice as many on AMD Zen 4 and
/// Zen 5, and half as many on an Intel Xeon (family 6, model 207).
inline bool multiplies_pairs_fast() {
#if defined(__AVX512BF16__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

} // namespace detail

/// C = alpha op(A) op(B) + beta C; arguments as in `gemm` (gemm.hpp). Packing and blocking follow K. Goto, R. van de
/// Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. Every element of C is summed in the order of k,
/// whatever its position, so its bits depend neither on the number of threads nor on m and n. bf16 operands are
/// multiplied by vdpbf16ps, two elements of k at a time, if the code is compiled for it and
/// `detail::multiplies_pairs_fast` is true; other 16-bit operands are converted to float. Does not allocate.
template <class a_type, class b_type, class c_type, class real = arithmetic<c_type>>
void gemm_builtin(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                  std::type_identity_t<real> alpha, a_type const* a, std::int64_t lda, b_type const* b,
                  std::int64_t ldb, std::type_identity_t<real> beta, c_type* c, std::int64_t ldc) {
  static_assert(std::is_same_v<arithmetic<a_type>, real> && std::is_same_v<arithmetic<b_type>, real> &&
                    (std::is_same_v<real, float> || std::is_same_v<real, double>),
                "gemm: the built-in GEMM multiplies f16, bf16 and float, also mixed, or double with double; cast "
                "other types first");
  if (m <= 0 || n <= 0) return;
  if (alpha == real{}) k = 0;
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<a_type, bfloat16> && std::is_same_v<b_type, bfloat16>)
    if (detail::multiplies_pairs_fast())
      return detail::gemm_packed<detail::bfloat16_pair>(a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb,
                                                        beta, c, ldc);
#endif
  detail::gemm_packed<real>(a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

} // namespace constrain
