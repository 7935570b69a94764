#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Converts the float16 elements at `from` to float; `bits`: their bits, one element per lane.
template <class vector, class integers> inline vector widened_halves(float16 const* from, integers const& bits) {
#if defined(__CUDACC__)
  // nvcc rejects vectors in __host__ __device__ functions, such as float_bits_of_half.
  vector out = __builtin_bit_cast(vector, bits);
  for (int lane = 0; lane < vector_of<float>::lanes; ++lane) out[lane] = from[lane];
  return out;
#else
  static_cast<void>(from);
  return __builtin_bit_cast(vector, float_bits_of_half<vector>(bits));
#endif
}

/// Loads a vector of elements from `from` (unaligned); 16-bit elements are converted to float.
template <class real, class stored> inline typename vector_of<real>::vector load_wide(stored const* from) {
  if constexpr (std::is_same_v<stored, real>) {
    return *reinterpret_cast<typename vector_of<real>::unaligned const*>(from);
  } else {
    static_assert(is_narrow_type<stored> && std::is_same_v<real, float>);
    using vector = typename vector_of<float>::vector;
    constexpr int lanes = vector_of<float>::lanes;
    typedef std::uint16_t narrow __attribute__((vector_size(2 * lanes), aligned(2), may_alias));
    typedef std::int32_t wide __attribute__((vector_size(4 * lanes)));
    auto const bits = __builtin_convertvector(*reinterpret_cast<narrow const*>(from), wide);
    if constexpr (std::is_same_v<stored, bfloat16>) return __builtin_bit_cast(vector, bits << 16);
    else return widened_halves<vector>(from, bits);
  }
}

/// Transposes a square matrix in registers: swaps the off-diagonal blocks of half its size, then of a quarter,
/// down to single elements.
template <int half, class vector, int... lane>
inline void transpose_registers(vector* row, std::integer_sequence<int, lane...> lanes) {
  constexpr int count = sizeof...(lane);
  auto const exchange = [](vector& upper, vector& lower) {
    vector const before = upper;
    upper = shuffled(before, lower, std::integer_sequence<int, ((lane & half) != 0 ? count + lane - half : lane)...>{});
    lower = shuffled(before, lower, std::integer_sequence<int, ((lane & half) != 0 ? count + lane : lane + half)...>{});
  };
  ((lane & half ? void() : exchange(row[lane], row[lane | half])), ...);
  if constexpr (half > 1) transpose_registers<half / 2>(row, lanes);
}

/// Writes to `to` the transpose of the square matrix at `from`. Rows are `stride` elements apart at `from`, and `width`
/// elements apart at `to`. Row indices of `from` at or beyond `rows` are clamped to the last row.
template <class real, int rows, int width, class stored, int... lane>
inline void copy_transposed(stored const* from, std::int64_t stride, real* to,
                            std::integer_sequence<int, lane...> lanes) {
  typename vector_of<real>::vector square[] = {load_wide<real>(from + std::min(lane, rows - 1) * stride)...};
  transpose_registers<sizeof...(lane) / 2>(square, lanes);
  ((*reinterpret_cast<typename vector_of<real>::unaligned*>(to + lane * width) = square[lane]), ...);
}

/// Packs an [extent, k] operand into panels of `width` rows; zeros pad the last panel. A panel is stored as [k,
/// width]. Element (i, p) is at source[i * stride + p] or, if `along_extent`, at source[p * stride + i]. 16-bit
/// elements are converted to float. Up to one vector may be written past the last panel.
template <int width, bool along_extent, class real, class stored>
void gemm_pack(stored const* source, std::int64_t stride, std::int64_t extent, std::int64_t k, real* out) {
  using unaligned = typename vector_of<real>::unaligned;
  constexpr int lanes = vector_of<real>::lanes;
  // The last vector may overrun into the elements of the next p or of the next panel, which are written later.
  constexpr int vectors = (width - 1) / lanes + 1;
  static_assert(vectors <= 2);
  auto const one_by_one = [&](std::int64_t first, std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      for (std::int64_t i = first; i < first + width; ++i)
        out[first * k + p * width + i - first] =
            i < extent ? real(source[along_extent ? p * stride + i : i * stride + p]) : real{};
  };
  if constexpr (along_extent) {
    // Reads 8 rows at a time: with more rows, several could map to one cache set, and a page holds only a few rows.
    constexpr std::int64_t block = 8;
    for (std::int64_t begin = 0; begin < k; begin += block)
      for (std::int64_t first = 0; first < extent; first += width) {
        std::int64_t const end = std::min(begin + block, k);
        std::int64_t const fast = first + vectors * lanes > extent ? begin
                                  : vectors * lanes == width       ? end
                                                                   : std::min(end, k - 1);
        for (std::int64_t p = begin; p < fast; ++p)
          for (int v = 0; v < vectors; ++v)
            *reinterpret_cast<unaligned*>(out + first * k + p * width + v * lanes) =
                load_wide<real>(source + p * stride + first + v * lanes);
        one_by_one(first, fast, end);
      }
  } else {
    for (std::int64_t first = 0; first < extent; first += width) {
      std::int64_t const fast = first + width > extent ? 0 : k / lanes * lanes;
      auto const transposed = [&]<int begin>(std::integral_constant<int, begin>) {
        for (std::int64_t p = 0; p < fast; p += lanes)
          copy_transposed<real, std::min(lanes, width - begin), width>(source + (first + begin) * stride + p, stride,
                                                                       out + first * k + p * width + begin,
                                                                       std::make_integer_sequence<int, lanes>{});
      };
      if constexpr (vectors == 2) transposed(std::integral_constant<int, lanes>{});
      transposed(std::integral_constant<int, 0>{});
      one_by_one(first, fast, k);
    }
  }
}

} // namespace constrain::detail
