#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/gemm_pack.hpp"
#include "constrain/device/cpu/gemm_panel_of_a.hpp"
#include "constrain/device/cpu/gemm_panel_of_b.hpp"
#include "constrain/device/cpu/gemm_prefetch.hpp"
#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The type of the sums over products of packed elements.
template <class packed> using sum_of = std::conditional_t<std::is_same_v<packed, bfloat16_pair>, float, packed>;

/// Whether the code is compiled for AVX512-FP16, and also for AVX512-BF16: only then does CONSTRAIN_FLAGS name
/// AVX512-FP16. Of the processors on which the GEMM was measured, only the Intel Xeons (family 6, models 167 and 207)
/// have AVX512-FP16.
#if defined(__AVX512BF16__) && defined(__AVX512FP16__)
inline constexpr bool compiled_for_avx512_fp16 = true;
#else
inline constexpr bool compiled_for_avx512_fp16 = false;
#endif

/// Whether the code is compiled for AVX512-FP16 or AVX-VNNI, and also for AVX512-BF16. Of the processors on which the
/// GEMM was measured, only the Intel Xeons (family 6, models 167 and 207) and Zen 5 have one of these. On model 207 and
/// on Zen 5, loads of B limit the rate of GEMMs with few rows.
#if defined(__AVX512BF16__) && (defined(__AVX512FP16__) || defined(__AVXVNNI__))
inline constexpr bool loads_limit_gemms = true;
#else
inline constexpr bool loads_limit_gemms = false;
#endif

/// Whether the code is compiled for FMA.
#if defined(__FMA__)
inline constexpr bool compiled_for_fma = true;
#else
inline constexpr bool compiled_for_fma = false;
#endif

/// Block sizes and limits of the built-in GEMM for one type of packed elements and register width. A micro-tile of C,
/// rows x columns, stays in registers. At most tile_rows x depth elements of A and depth x tile_columns elements of B
/// are packed at a time. A block of A, of block_panels panels, and the packed B together stay in the L2 cache.
template <class packed, int bytes = vector_bytes> struct gemm_blocking : vector_of<packed, bytes> {
  static constexpr int lanes = vector_of<packed, bytes>::lanes;
  // Two vectors of B, one vector of A and the micro-tile fit into 32 registers with AVX-512, otherwise into 16.
  static constexpr int rows = bytes == 64 ? 14 : bytes == 32 ? 6 : 4;
  static constexpr int columns = 2 * lanes;
  // These sizes suit an L2 cache of 1 to 2 MiB with AVX-512, and of 512 KiB otherwise. With 64-byte vectors, twice as
  // many columns of B made the forward GEMMs of layers with 64 rows of x, the input, up to 15 % slower on Zen 4 in
  // memory without huge pages.
  static constexpr int depth = bytes == 64 ? 384 : 256;
  static constexpr std::int64_t along_k = depth * elements_of<packed>;      // elements along k in `depth` rows
  static constexpr std::int64_t block_panels = 512 / sizeof(packed) / rows; // panels of A in a block
  static constexpr int tile_rows = (2048 / sizeof(packed) + rows - 1) / rows * rows;
  static constexpr int tile_columns = (bytes == 64 ? 256 : 512) / sizeof(packed);
  // With at most this many rows of A in a thread's tile, packing B costs more time than it saves. B is then read in
  // place if it needs no conversion and no transposition, except in a block that ends with an incomplete panel. With
  // vectors of fewer than 64 bytes, reading in place is slower if A has three or more panels. Both limits were measured
  // on Zen 5.
  static constexpr int rows_in_place = (bytes == 64 ? 5 : 2) * rows;
  // Whether B is packed even for at most `rows_in_place` rows if A has several panels, a micro-kernel can pack B, and
  // rows of B are a multiple of 4096 bytes apart, so that they share cache sets. On an Intel Xeon (family 6, model
  // 207), with 64 rows of x, packing such a B made the input-gradient GEMMs of bench/gemms.cpp up to 19 % faster;
  // on two Zen 5 cores, 10 % (median over the shapes). Packing any other B made them slower on both.
  static constexpr bool prefers_packing = bytes == 64 && loads_limit_gemms;
  // How far ahead a micro-kernel prefetches A and B into the L1 cache: columns of A after the current one, and rows of
  // B after the next one; 0: no such prefetches. On the same Xeon, with 256 rows of x, the prefetches raised the rate
  // relative to oneDNN's from 0.94 to 0.97 (median over the shapes of bench/gemms.cpp). On Zen 4, with 64 rows of x and
  // with rows of B that do not begin at the start of a cache line, they raised the least of these ratios from 0.55 to
  // 0.89. They did not help vdpbf16ps.
  static constexpr int rows_ahead = bytes == 64 && !std::is_same_v<packed, bfloat16_pair> ? 8 : 0;
  // Whether a micro-kernel multiplies with `gemm_prefetch::interval` rows of B per iteration and prefetches C before
  // the first one, instead of during the loop. Both save instructions, whose number limits the rate while another
  // virtual machine uses the other hardware thread of a core. On two Zen 3 cores that were shared in this way, the rate
  // relative to the faster one of oneDNN 2.6 and OpenBLAS rose from 0.78 to 1.03 with 64 rows of x, and from 0.80 to
  // 1.06 with 256 (medians over the shapes of bench/gemms.cpp). With 64-byte vectors, a loop without unrolling was as
  // fast on the Xeon. Without FMA, g++ would spill sums.
  static constexpr bool unrolled = bytes == 32 && compiled_for_fma;
  // Elements of the buffers for packed A and B. Packing A may write up to `lanes` elements past the end.
  static constexpr int a_size = tile_rows * depth + lanes, b_size = depth * tile_columns;
  static_assert(tile_columns % columns == 0);
};

/// The scalars in c = alpha a b + beta c.
template <class real> struct gemm_scales { real alpha, beta; };

/// sum += a b
template <class real, class vector> [[gnu::always_inline]] inline void multiply_add(vector& sum, real a, vector b) {
#if defined(__FMA__)
  if constexpr (sizeof(vector) == 32) {
    vector const broadcast = a - vector{};
    vector next = sum + broadcast * b;
    // Without this statement, g++ would overwrite `broadcast` or `b` instead of the sum in some places, and spill sums
    // later. `next` is a copy because an array with an element that asm may change stays in memory.
    asm("" : "+x"(next) : "x"(broadcast), "x"(b));
    sum = next;
    return;
  }
#endif
  sum += a * b;
}
#if defined(__AVX512BF16__)
/// sum += the products of the first elements and of the second elements of the pairs, in fp32; `a` is the same pair for
/// every lane. Subnormal numbers count as 0.
[[gnu::always_inline]] inline void multiply_add(vector_of<float>::vector& sum, bfloat16_pair a,
                                                vector_of<bfloat16_pair>::vector b) {
  vector_of<bfloat16_pair>::vector const broadcast = a - vector_of<bfloat16_pair>::vector{};
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(b), "v"(broadcast));
}
#endif

// The next two functions are always inlined: a reference to a sum would keep all sums in memory during the loop.

/// to[i] = alpha sum[i] for each lane i
template <class vector, class real>
[[gnu::always_inline]] inline void gemm_store(vector const& sum, real alpha, real* to) {
  *reinterpret_cast<typename vector_of<real>::unaligned*>(to) = alpha * sum;
}
/// to[i] = alpha sum[i] + beta to[i] for each lane i
template <class vector, class real>
[[gnu::always_inline]] inline void gemm_add(vector const& sum, real alpha, real beta, real* to) {
  auto& target = *reinterpret_cast<typename vector_of<real>::unaligned*>(to);
  target = alpha * sum + beta * target;
}

/// The micro-kernel: c = alpha a b + beta c for the first `rows` rows of a micro-tile of sizeof...(row) rows; c is not
/// read if beta is 0. a: a panel of at least sizeof...(row) rows; b: a panel of `depth` rows. Every
/// `gemm_prefetch::interval` rows of b, it prefetches a few cache lines of the next block of B and of c: more at a time
/// would make the loads of a and b wait. If `blocking::unrolled` is true, it prefetches c before the first row instead.
/// If `blocking::rows_ahead` is not 0, it also prefetches a and b. The function is not inlined, and its loops have no
/// live vectors except sums and operands: with any other vector, the compiler could spill a register. Only the
/// conversion of float16 needs more vectors; even so, packing such a B in a separate pass is slower.
template <class packed, class panel_of_a, class panel_of_b, class real = sum_of<packed>,
          class blocking = gemm_blocking<packed>, std::size_t... row>
[[gnu::noinline]] void gemm_micro(std::index_sequence<row...>, std::int64_t depth, panel_of_a a, panel_of_b b,
                                  gemm_scales<real> const& scales, std::int64_t rows, real* c, std::int64_t ldc,
                                  gemm_prefetches& prefetch) {
  using vector = typename vector_of<real>::vector;
  constexpr int lanes = blocking::lanes;
  // C's tile is needed in the cache when the sums are complete.
  if constexpr (blocking::unrolled) {
    ((__builtin_prefetch(c + row * ldc, 1, 3), __builtin_prefetch(c + row * ldc + blocking::columns - 1, 1, 3)), ...);
  } else {
    // A row may touch one line more than its bytes fill.
    constexpr std::int64_t size = sizeof(real), row_bytes = blocking::columns * size + gemm_prefetch::line - 1;
    prefetch.c = {reinterpret_cast<char const*>(c), rows, ldc * size, row_bytes};
    prefetch.c.spread_over((depth - 1) / gemm_prefetch::interval + 1);
  }
  vector left_sums[sizeof...(row)] = {}, right_sums[sizeof...(row)] = {};
  // Adds to the sums the products of the next row of b and the column of a that is `ahead` columns after the next one.
  auto const multiply_row = [&](std::size_t ahead) __attribute__((always_inline)) {
    typename blocking::vector left, right;
    // `load` also advances the address, before the sums: otherwise g++ would load B from memory again for every row.
    b.load(left, right);
    if constexpr (blocking::rows_ahead > 0) {
      a.fetch(blocking::rows_ahead);
      b.fetch(blocking::rows_ahead);
    }
    ((multiply_add(left_sums[row], a.at(row, ahead), left), multiply_add(right_sums[row], a.at(row, ahead), right)),
     ...);
  };
  std::int64_t p = 0;
  if constexpr (blocking::unrolled) {
    for (; p + gemm_prefetch::interval <= depth; p += gemm_prefetch::interval) {
      prefetch.b.fetch_to_read();
      [&]<std::size_t... ahead>(std::index_sequence<ahead...>) __attribute__((always_inline)) {
        (multiply_row(ahead), ...);
      }
      (std::make_index_sequence<gemm_prefetch::interval>{});
      a.advance(gemm_prefetch::interval);
    }
  }
#if defined(__clang__)
#pragma clang loop unroll(disable) // unrolled for Zen 3 and Zen 4, the loop would spill sums
#endif
  for (; p < depth; ++p, a.advance(1)) {
    if (p % gemm_prefetch::interval == 0) {
      prefetch.b.fetch_to_read();
      if constexpr (!blocking::unrolled) prefetch.c.fetch_to_write();
    }
    multiply_row(0);
  }
  // Makes the compiler compute C's addresses here, instead of keeping them in registers during the loop.
  asm("" : "+r"(c), "+r"(ldc));
  real const alpha = scales.alpha, beta = scales.beta;
  if (beta == real{})
    ((static_cast<std::int64_t>(row) < rows ? (gemm_store(left_sums[row], alpha, c + row * ldc),
                                               gemm_store(right_sums[row], alpha, c + row * ldc + lanes))
                                            : void()),
     ...);
  else
    ((static_cast<std::int64_t>(row) < rows ? (gemm_add(left_sums[row], alpha, beta, c + row * ldc),
                                               gemm_add(right_sums[row], alpha, beta, c + row * ldc + lanes))
                                            : void()),
     ...);
}

/// Whether there is a micro-kernel that also packs B, and one that reads A in place, for micro-tiles of `rows` rows:
/// only for the three tallest, to limit the code's size. `maximum`: the rows of a complete micro-tile.
constexpr bool has_packing_kernel(std::int64_t rows, int maximum) { return rows >= maximum - 2; }

/// Whether there is a micro-kernel for micro-tiles of `rows` rows; `maximum`: the rows of a complete one. If there are
/// many rows, panels of nearly equal heights (`gemm_panel_split::evenly`) have `maximum` rows or one or two fewer.
constexpr bool has_micro_kernel(int rows, int maximum) {
  return has_packing_kernel(rows, maximum) || rows == 1 || rows == (maximum + 2) / 4 || rows == (maximum + 1) / 2 ||
         rows == (5 * maximum + 6) / 8 || rows == (3 * maximum + 3) / 4;
}

/// Calls the smallest micro-kernel that has at least `rows` rows and, if `b` is a `gemm_unpacked_panel`, packs `b`;
/// other arguments as in `gemm_micro`.
template <class packed, class panel_of_a, class panel_of_b, class real = sum_of<packed>,
          class blocking = gemm_blocking<packed>>
void gemm_rows(std::int64_t rows, std::int64_t depth, panel_of_a const& a, panel_of_b const& b,
               gemm_scales<real> const& scales, real* c, std::int64_t ldc, gemm_prefetches& prefetch) {
  auto const multiply = [&]<std::size_t index>(std::index_sequence<index>) {
    constexpr bool are_packed = std::is_same_v<panel_of_a, gemm_packed_rows<packed, blocking::rows>> &&
                                std::is_same_v<panel_of_b, gemm_packed_panel<packed>>;
    if constexpr (constexpr int height = index + 1;
                  !are_packed ? has_packing_kernel(height, blocking::rows) : has_micro_kernel(height, blocking::rows)) {
      if (rows > height) return false;
      gemm_micro<packed>(std::make_index_sequence<height>{}, depth, a, b, scales, rows, c, ldc, prefetch);
      return true;
    } else return false;
  };
  [&]<std::size_t... index>(std::index_sequence<index...>) {
    static_cast<void>((multiply(std::index_sequence<index>{}) || ...));
  }
  (std::make_index_sequence<blocking::rows>{});
}

/// Copies `count` elements, converting them to the type of `to`. With AVX512-BF16, floats below 2^-126 in absolute
/// value become 0 in bf16.
template <class from_type, class to_type>
inline void gemm_copy(from_type const* from, std::int64_t count, to_type* to) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<from_type, float> && std::is_same_v<to_type, bfloat16>) {
    constexpr int lanes = vector_of<float>::lanes;
    typedef std::uint16_t bf16_lanes __attribute__((vector_size(2 * lanes)));
    auto const convert = [=](std::int64_t begin, auto length) {
      vector_of<float>::vector x{};
      bf16_lanes rounded;
      std::memcpy(&x, from + begin, static_cast<std::size_t>(length) * sizeof(float));
      asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x));
      std::memcpy(static_cast<void*>(to + begin), &rounded, static_cast<std::size_t>(length) * sizeof(bfloat16));
    };
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) convert(i, std::integral_constant<int, lanes>{});
    // The rest uses the same instruction, so that every element is rounded alike, whatever its position.
    if (i < count) convert(i, count - i);
    return;
  }
#endif
  simd_loop(count, [=](std::int64_t x) { to[x] = from[x]; });
}

/// `gemm_rows` for a micro-tile [rows, columns] that has fewer than `blocking::columns` columns, or whose C has another
/// type than the sums: the same arithmetic on a copy of C.
template <class packed, class panel_of_a, class panel_of_b, class c_type, class real = sum_of<packed>,
          class blocking = gemm_blocking<packed>>
void gemm_edge(std::int64_t rows, std::int64_t columns, std::int64_t depth, panel_of_a const& a, panel_of_b const& b,
               gemm_scales<real> const& scales, c_type* c, std::int64_t ldc, gemm_prefetches& prefetch) {
  alignas(64) real c_copy[blocking::rows * blocking::columns];
  if (scales.beta != real{}) {
    if (rows * columns < blocking::rows * blocking::columns) std::fill(std::begin(c_copy), std::end(c_copy), real{});
    for (std::int64_t i = 0; i < rows; ++i) gemm_copy(c + i * ldc, columns, c_copy + i * blocking::columns);
  }
  gemm_rows<packed>(rows, depth, a, b, scales, c_copy, blocking::columns, prefetch);
  for (std::int64_t i = 0; i < rows; ++i) gemm_copy(c_copy + i * blocking::columns, columns, c + i * ldc);
}

} // namespace constrain::detail
