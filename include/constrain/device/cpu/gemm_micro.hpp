#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/gemm_pack.hpp"
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
  // Elements of the buffers for packed A and B. Packing A may write up to `lanes` elements past the end.
  static constexpr int a_size = tile_rows * depth + lanes, b_size = depth * tile_columns;
  static_assert(tile_columns % columns == 0);
};

/// The scalars in c = alpha a b + beta c.
template <class real> struct gemm_scales { real alpha, beta; };

/// sum += a b
template <class real, class vector> [[gnu::always_inline]] inline void multiply_add(vector& sum, real a, vector b) {
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

/// The micro-kernel: c = alpha a b + beta c for one micro-tile of sizeof...(row) rows; c is not read if beta is 0. a:
/// [depth, blocking::rows], packed; b: [depth, blocking::columns], with rows b_stride elements apart. The function is
/// not inlined, and only sums and operands are live in its loop, since one more live value would spill a register.
template <class packed, class real = sum_of<packed>, class blocking = gemm_blocking<packed>, std::size_t... row>
[[gnu::noinline]] void gemm_micro(std::index_sequence<row...>, std::int64_t depth, packed const* a, packed const* b,
                                  std::int64_t b_stride, gemm_scales<real> const& scales, real* c, std::int64_t ldc) {
  using vector = typename vector_of<real>::vector;
  using unaligned = typename vector_of<real>::unaligned;
  constexpr int lanes = blocking::lanes;
  // Prefetches the first and the last cache line of each row of C, so that they are in the cache after the sums.
  for (std::size_t i = 0; i < sizeof...(row); ++i) {
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * ldc, 1);
    __builtin_prefetch(c + static_cast<std::int64_t>(i) * ldc + 2 * lanes - 1, 1);
  }
  vector left_sums[sizeof...(row)] = {}, right_sums[sizeof...(row)] = {};
  for (std::int64_t p = 0; p < depth; ++p, a += blocking::rows) {
    typename blocking::vector const b_left = *reinterpret_cast<typename blocking::unaligned const*>(b);
    typename blocking::vector const b_right = *reinterpret_cast<typename blocking::unaligned const*>(b + lanes);
    // The address is advanced before the sums: otherwise g++ would load B from memory again for every row.
    b += b_stride;
    ((multiply_add(left_sums[row], a[row], b_left), multiply_add(right_sums[row], a[row], b_right)), ...);
  }
  // Makes the compiler compute C's addresses here, instead of keeping them in registers during the loop.
  asm("" : "+r"(c), "+r"(ldc));
  real const alpha = scales.alpha, beta = scales.beta;
  auto const overwrite = [=](vector const& sum, real* to) { *reinterpret_cast<unaligned*>(to) = alpha * sum; };
  auto const add = [=](vector const& sum, real* to) {
    auto& target = *reinterpret_cast<unaligned*>(to);
    target = alpha * sum + beta * target;
  };
  if (beta == real{})
    ((overwrite(left_sums[row], c + row * ldc), overwrite(right_sums[row], c + row * ldc + lanes)), ...);
  else ((add(left_sums[row], c + row * ldc), add(right_sums[row], c + row * ldc + lanes)), ...);
}

/// Copies `count` elements, converting them to the type of `to`. With AVX512_BF16, floats below 2^-126 in absolute
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
    // The same instruction for the rest: every element is rounded alike, whatever its position.
    if (i < count) convert(i, count - i);
    return;
  }
#endif
  simd_loop(count, [=](std::int64_t x) { to[x] = from[x]; });
}

/// `gemm_micro` for an incomplete micro-tile, rows x columns, or for another type of C: the same arithmetic on a copy
/// of C.
template <class packed, class c_type, class real = sum_of<packed>, class blocking = gemm_blocking<packed>>
void gemm_edge(std::int64_t rows, std::int64_t columns, std::int64_t depth, packed const* a, packed const* b,
               std::int64_t b_stride, gemm_scales<real> const& scales, c_type* c, std::int64_t ldc) {
  alignas(64) real c_copy[blocking::rows * blocking::columns];
  if (scales.beta != real{}) {
    if (rows * columns < blocking::rows * blocking::columns) std::fill(std::begin(c_copy), std::end(c_copy), real{});
    for (std::int64_t i = 0; i < rows; ++i) gemm_copy(c + i * ldc, columns, c_copy + i * blocking::columns);
  }
  // The smallest micro-kernel that has all rows.
  auto const multiply = [&]<std::size_t count>(std::index_sequence<count>) {
    if (rows > static_cast<std::int64_t>(count)) return false;
    gemm_micro(std::make_index_sequence<count>{}, depth, a, b, b_stride, scales, c_copy, blocking::columns);
    return true;
  };
  constexpr std::size_t full_rows = blocking::rows;
  [[maybe_unused]] bool const multiplied = [&]<std::size_t... count>(std::index_sequence<count...>) {
    return (multiply(std::index_sequence<count>{}) || ...);
  }
  (std::index_sequence<1, (full_rows + 2) / 4, (full_rows + 1) / 2, (3 * full_rows + 3) / 4, full_rows>{});
  for (std::int64_t i = 0; i < rows; ++i) gemm_copy(c_copy + i * blocking::columns, columns, c + i * ldc);
}

} // namespace constrain::detail
