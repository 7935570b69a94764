#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/gemm_few_rows.hpp"
#include "constrain/device/cpu/gemm_micro.hpp"
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

/// Splits `extent`, at least 1, into as few nearly equal parts as possible, none larger than `maximum`. Returns the
/// size of the largest part, rounded up to a multiple of `multiple`, which may exceed `maximum`.
constexpr std::int64_t equal_part(std::int64_t extent, std::int64_t maximum, std::int64_t multiple) {
  std::int64_t const parts = (extent - 1) / maximum + 1;
  return ((extent - 1) / parts / multiple + 1) * multiple;
}

/// A block of op(B), and how micro-kernels read it: in panels of `gemm_blocking::columns` columns, `panel_stride`
/// elements apart. In a panel, rows of packed elements are `stride` elements apart. If `to_pack` is not null, it equals
/// `panel`, and the panels are not packed yet: each is packed there just before it is first read or, if B is not
/// transposed, by the first micro-kernel that reads it.
template <class packed, class stored> struct gemm_block_of_b {
  packed const* panel;
  std::int64_t stride, panel_stride;
  // The block in memory: rows of the stored B are `ldb` elements apart; `k` is the block's extent along k.
  stored const* source;
  std::int64_t ldb, k;
  transpose transposed;
  packed* to_pack = nullptr;
};

/// The prefetch of a block of B in memory, [rows, columns].
template <class b_type>
gemm_prefetch gemm_prefetch_of_b(b_type const* b, std::int64_t ldb, std::int64_t rows, std::int64_t columns) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(b_type));
  return {.row = reinterpret_cast<char const*>(b), .rows = rows, .stride = ldb * size, .row_bytes = columns * size};
}

/// c = alpha a b + beta c for the rows of C that belong to the panels [begin, end) of A. c: the row of C that belongs
/// to the first row of panel 0. a: packed panels (`gemm_pack`) of `depth` packed elements along k. For each block of B,
/// the first call must include panel 0 of A: B is packed before or during the multiplication by this panel.
template <class packed, class b_type, class c_type, class real = sum_of<packed>, class blocking = gemm_blocking<packed>>
void gemm_panels(gemm_panel_split const& panels, std::int64_t begin, std::int64_t end, std::int64_t columns,
                 std::int64_t depth, packed const* a, gemm_block_of_b<packed, b_type> const& b,
                 gemm_scales<real> const& scales, c_type* c, std::int64_t ldc, gemm_prefetches& prefetch) {
  for (std::int64_t j = 0, offset = 0; j < columns; j += blocking::columns, offset += b.panel_stride) {
    auto const width = std::min<std::int64_t>(columns - j, blocking::columns);
    bool const transposed = b.transposed == transpose::yes;
    if (begin == 0 && b.to_pack != nullptr && transposed)
      gemm_pack<blocking::columns, false>(b.source + j * b.ldb, b.ldb, width, b.k,
                                          gemm_panel_split::of_height(width, blocking::columns), b.to_pack + offset);
    for (std::int64_t panel = begin; panel < end; ++panel) {
      auto const row = panels.begin(panel), height = panels.begin(panel + 1) - row;
      auto const multiply = [&](auto const& panel_of_b) {
        gemm_packed_rows<packed, blocking::rows> const panel_a = {a + panel * blocking::rows * depth};
        c_type* const c_tile = c + row * ldc + j;
        if constexpr (std::is_same_v<c_type, real>)
          if (width == blocking::columns)
            return gemm_rows<packed>(height, depth, panel_a, panel_of_b, scales, c_tile, ldc, prefetch);
        gemm_edge<packed>(height, width, depth, panel_a, panel_of_b, scales, c_tile, ldc, prefetch);
      };
      if (panel == 0 && b.to_pack != nullptr && !transposed)
        multiply(gemm_unpacked_panel<packed, b_type>{b.source + j, b.ldb, b.to_pack + offset});
      else multiply(gemm_packed_panel<packed>{b.panel + offset, b.stride});
    }
  }
}

/// Computes one thread's tile of C, [rows, columns], from k elements along k; other arguments as in `gemm` (gemm.hpp).
/// `a` and `b` point to the tile's first row of op(A) and first column of op(B), `c` to its first element. The operands
/// are packed as elements of type `packed`, except a B of this type that is read in place (`rows_in_place`). With a
/// 16-bit C, k must be at most `blocking::along_k`, so that sums are rounded once.
template <class packed, class a_type, class b_type, class c_type, class real = sum_of<packed>,
          class blocking = gemm_blocking<packed>>
void gemm_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns, std::int64_t k,
               real alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb, real beta, c_type* c,
               std::int64_t ldc) {
  auto* const packed_a = reinterpret_cast<packed*>(gemm_buffer);
  auto* const packed_b = packed_a + blocking::a_size;
  bool const transposed = b_transposed == transpose::yes;
  bool const can_read_in_place = std::is_same_v<b_type, packed> && !transposed && rows <= blocking::rows_in_place;
  constexpr bool converts_b = sizeof(b_type) * elements_of<packed> != sizeof(packed);
  bool const rows_of_b_collide = ldb * static_cast<std::int64_t>(sizeof(b_type)) % 4096 == 0;
  auto const tile_rows = equal_part(rows, blocking::tile_rows, 1);
  auto const b_at = [=](std::int64_t p, std::int64_t j) { return transposed ? b + j * ldb + p : b + p * ldb + j; };
  auto const prefetch_of_b = [&](std::int64_t p, std::int64_t j) {
    auto const length = std::min(blocking::along_k, k - p),
               width = std::min<std::int64_t>(blocking::tile_columns, columns - j);
    return gemm_prefetch_of_b(b_at(p, j), ldb, transposed ? width : length, transposed ? length : width);
  };
  for (std::int64_t first_row = 0; first_row < rows; first_row += tile_rows) {
    auto const height = std::min(tile_rows, rows - first_row);
    auto const panels_of_a = gemm_panel_split::evenly(height, blocking::rows);
    bool const kernel_packs = has_packing_kernel(panels_of_a.begin(1), blocking::rows);
    bool const prefers_packing =
        blocking::prefers_packing && rows_of_b_collide && panels_of_a.count > 1 && kernel_packs;
    std::int64_t p = 0;
    do { // at least once: for k = 0, C must still be scaled
      auto const length = std::min(blocking::along_k, k - p);
      auto const depth = (length - 1 + elements_of<packed>) / elements_of<packed>;
      if (a_transposed == transpose::yes)
        gemm_pack<blocking::rows, true>(a + p * lda + first_row, lda, height, length, panels_of_a, packed_a);
      else gemm_pack<blocking::rows, false>(a + first_row * lda + p, lda, height, length, panels_of_a, packed_a);
      for (std::int64_t j = 0; j < columns; j += blocking::tile_columns) {
        auto const width = std::min<std::int64_t>(blocking::tile_columns, columns - j);
        auto const panels_of_b = gemm_panel_split::of_height(width, blocking::columns);
        // An odd k ends with half a pair, and an incomplete panel lacks columns: only `gemm_pack` handles these.
        bool const complete = width % blocking::columns == 0;
        gemm_block_of_b<packed, b_type> block = {
            packed_b, blocking::columns, blocking::columns * depth, b_at(p, j), ldb, length, b_transposed};
        if (transposed && converts_b)
          gemm_pack<blocking::columns, false>(block.source, ldb, width, length, panels_of_b, packed_b);
        else if (can_read_in_place && complete && !prefers_packing) {
          if constexpr (std::is_same_v<b_type, packed>)
            block.panel = block.source, block.stride = ldb, block.panel_stride = blocking::columns;
        } else if (transposed || (complete && length % elements_of<packed> == 0 && kernel_packs))
          block.to_pack = packed_b;
        else gemm_pack<blocking::columns, true>(block.source, ldb, width, length, panels_of_b, packed_b);
        gemm_prefetches prefetch = {.b = j + width < columns ? prefetch_of_b(p, j + width)
                                         : p + length < k    ? prefetch_of_b(p + length, 0)
                                                             : gemm_prefetch{}};
        prefetch.b.spread_over(panels_of_a.count * panels_of_b.count * ((depth - 1) / gemm_prefetch::interval + 1));
        gemm_scales<real> const scales = {alpha, p == 0 ? beta : real{1}};
        for (std::int64_t i = 0; i < panels_of_a.count; i += blocking::block_panels)
          gemm_panels(panels_of_a, i, std::min(i + blocking::block_panels, panels_of_a.count), width, depth, packed_a,
                      block, scales, c + first_row * ldc + j, ldc, prefetch);
      }
      p += length;
    } while (p < k);
  }
}

/// Each thread's buffer for the float sums of a tile of a 16-bit C: enough for 256 columns of the tallest tile.
inline constexpr std::int64_t gemm_sums_count = std::int64_t{gemm_blocking<float>::tile_rows} * 256;
alignas(64) inline constinit thread_local float gemm_sums[gemm_sums_count];

/// `gemm_tile` for a C of 16-bit elements and any k: accumulates in float and rounds once. Arguments as in `gemm_tile`.
template <class packed, class a_type, class b_type, class c_type>
void gemm_narrow_tile(transpose a_transposed, transpose b_transposed, std::int64_t rows, std::int64_t columns,
                      std::int64_t k, float alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb,
                      float beta, c_type* c, std::int64_t ldc) {
  using blocking = gemm_blocking<packed>;
  if (k <= blocking::along_k)
    return gemm_tile<packed>(a_transposed, b_transposed, rows, columns, k, alpha, a, lda, b, ldb, beta, c, ldc);
  auto const tile_rows = equal_part(rows, blocking::tile_rows, 1);
  auto const tile_columns =
      equal_part(columns, gemm_sums_count / tile_rows / blocking::columns * blocking::columns, blocking::columns);
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

/// C = alpha op(A) op(B) + beta C for m, n > 0 and k >= 0, with operands packed as elements of type `packed`; arguments
/// as in `gemm` (gemm.hpp). Splits C into at most `thread_count()` tiles.
template <class packed, class a_type, class b_type, class c_type, class real = sum_of<packed>>
void gemm_packed(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                 real alpha, a_type const* a, std::int64_t lda, b_type const* b, std::int64_t ldb, real beta, c_type* c,
                 std::int64_t ldc) {
  using blocking = gemm_blocking<packed>;
  static_assert((blocking::a_size + blocking::b_size) * sizeof(packed) <= gemm_buffer_bytes);
  // The loop below chooses the grid whose tiles cost least. Packing one element costs about as much as ten
  // multiply-adds.
  std::int64_t rows = 0, columns = 0, lowest_cost = std::numeric_limits<std::int64_t>::max();
  std::int64_t const threads = thread_count();
  for (std::int64_t grid_rows = 1; grid_rows <= threads; ++grid_rows) {
    auto const height = equal_part(m, (m - 1) / grid_rows + 1, 1);
    auto const width = equal_part(n, (n - 1) / (threads / grid_rows) + 1, blocking::columns);
    auto const cost = height * width + 10 * (height + width);
    if (cost < lowest_cost) lowest_cost = cost, rows = height, columns = width;
  }
  std::int64_t const grid_rows = (m - 1) / rows + 1, grid_columns = (n - 1) / columns + 1;
  parallel_for(grid_rows * grid_columns, [&](std::int64_t index) {
    std::int64_t const i = index % grid_rows * rows, j = index / grid_rows * columns;
    auto const* const tile_a = a + (a_transposed == transpose::yes ? i : i * lda);
    auto const* const tile_b = b + (b_transposed == transpose::yes ? j * ldb : j);
    auto const height = std::min(rows, m - i), width = std::min(columns, n - j);
#if defined(__AVX512F__)
    constexpr bool are_floats =
        std::is_same_v<a_type, float> && std::is_same_v<b_type, float> && std::is_same_v<c_type, float>;
    if constexpr (loads_limit_gemms && are_floats)
      if (a_transposed == transpose::no && b_transposed == transpose::yes && prefers_few_rows(height, width, k))
        return gemm_few_rows(height, width, k, alpha, tile_a, lda, tile_b, ldb, beta, c + i * ldc + j, ldc);
#endif
    if constexpr (std::is_same_v<c_type, real>)
      gemm_tile<packed>(a_transposed, b_transposed, height, width, k, alpha, tile_a, lda, tile_b, ldb, beta,
                        c + i * ldc + j, ldc);
    else
      gemm_narrow_tile<packed>(a_transposed, b_transposed, height, width, k, alpha, tile_a, lda, tile_b, ldb, beta,
                               c + i * ldc + j, ldc);
  });
}

/// Whether GEMMs of two bf16 operands use vdpbf16ps. AMD Zen 4 and Zen 5 do twice as many multiply-adds per second with
/// vdpbf16ps as with the fp32 FMA instruction. An Intel Xeon (family 6, model 207), which unlike these AMD processors
/// has AVX512-FP16, does half as many. On two Zen 5 cores, a step of GPT-2 124M with 4 x 256 tokens took 0.99 s with
/// vdpbf16ps and 1.74 s with operands converted to fp32. In a build with oneDNN 2.6, the step took 0.95 s with
/// vdpbf16ps and 1.08 s with oneDNN's bf16 GEMMs.
#if defined(__AVX512BF16__) && !defined(__AVX512FP16__)
inline constexpr bool multiplies_pairs = true;
#else
inline constexpr bool multiplies_pairs = false;
#endif

/// Whether to use the built-in GEMM for a float GEMM even in a build with oneDNN or a CBLAS; m, n, k: as in `gemm`.
/// Measured on processors with AVX512-BF16, with oneDNN 2.6 and OpenBLAS 0.3.21. On two Zen 4 cores, the built-in GEMM
/// reached 1.01 times the rate of the faster of the two for layers with 64 and with 256 input rows, and 1.00 times with
/// 1024 (medians over the shapes of bench/gemms.cpp); on two cores of an Intel Xeon (family 6, model 207), 1.03, 1.02
/// and 1.00 times. On the Zen 4 cores, a step of GPT-2 124M with 4 x 64 tokens took 0.97 s instead of 0.99 s in a build
/// with oneDNN, and 1.0 s instead of 1.16 s in a build with OpenBLAS; on the Xeon, 0.74 s instead of 0.77 s in a build
/// with oneDNN. In GEMMs with fewer rows or columns and in small layers, oneDNN was faster.
constexpr bool prefers_builtin_gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  bool const is_layer = std::min({m, n, k}) >= 64 && (m >= 256) + (n >= 256) + (k >= 256) >= 2;
  return (multiplies_pairs || compiled_for_avx512_fp16) && is_layer && m * n * k >= std::int64_t{1} << 25;
}

} // namespace detail

/// C = alpha op(A) op(B) + beta C; arguments as in `gemm` (gemm.hpp), but k must be at least 0, and leading dimensions
/// are not checked. Packing and blocking follow K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix
/// Multiplication", 2008. Every element of C is summed in the order of k, whatever its position, so its bits, unless it
/// is a NaN, depend neither on the number of threads nor on m and n. If both operands are bf16 and
/// `detail::multiplies_pairs` is true, vdpbf16ps multiplies them, two elements of k at a time; otherwise, 16-bit
/// operands are converted to float. Does not allocate.
template <class a_type, class b_type, class c_type, class real = arithmetic<c_type>>
void gemm_builtin(transpose a_transposed, transpose b_transposed, std::int64_t m, std::int64_t n, std::int64_t k,
                  std::type_identity_t<real> alpha, a_type const* a, std::int64_t lda, b_type const* b,
                  std::int64_t ldb, std::type_identity_t<real> beta, c_type* c, std::int64_t ldc) {
  static_assert(std::is_same_v<arithmetic<a_type>, real> && std::is_same_v<arithmetic<b_type>, real> &&
                    (std::is_same_v<real, float> || std::is_same_v<real, double>),
                "gemm: A, B and C must have the types ct::float16, ct::bfloat16 or float, which may be mixed, or all "
                "must have the type double; convert other types first");
  if (m <= 0 || n <= 0) return;
  if (alpha == real{} || k <= 0) alpha = 0, k = 0; // an infinite alpha times an empty sum, 0, would be NaN
  constexpr bool pairs =
      detail::multiplies_pairs && std::is_same_v<a_type, bfloat16> && std::is_same_v<b_type, bfloat16>;
  detail::gemm_packed<std::conditional_t<pairs, detail::bfloat16_pair, real>>(a_transposed, b_transposed, m, n, k,
                                                                              alpha, a, lda, b, ldb, beta, c, ldc);
}

} // namespace constrain
