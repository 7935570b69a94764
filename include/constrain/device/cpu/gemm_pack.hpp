#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Each thread's packing buffer, and its size. The size is fixed, so that no built-in GEMM allocates, and is enough for
/// every element type and instruction set (`gemm_packed` asserts this). The buffer consists of bytes, so that all
/// element types share it.
inline constexpr std::size_t gemm_buffer_bytes = 896 * 1024;
alignas(64) inline constinit thread_local unsigned char gemm_buffer[gemm_buffer_bytes];

/// Converts the float16 elements at `from` to float; `bits`: their bits, one element per lane.
template <class vector, class integers>
[[gnu::always_inline]] inline vector widened_halves(float16 const* from, integers const& bits) {
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
template <class real, class stored>
[[gnu::always_inline]] inline typename vector_of<real>::vector load_wide(stored const* from) {
  if constexpr (std::is_same_v<stored, real>) {
    return *reinterpret_cast<typename vector_of<real>::unaligned const*>(from);
  } else {
    static_assert(is_narrow_type<stored> && std::is_same_v<real, float>);
    using vector = typename vector_of<float>::vector;
    constexpr int lanes = vector_of<float>::lanes;
    typedef std::uint16_t lanes_16 __attribute__((vector_size(2 * lanes), aligned(2), may_alias));
    typedef std::int32_t lanes_32 __attribute__((vector_size(4 * lanes)));
    auto const bits = __builtin_convertvector(*reinterpret_cast<lanes_16 const*>(from), lanes_32);
    if constexpr (std::is_same_v<stored, bfloat16>) return __builtin_bit_cast(vector, bits << 16);
    else return widened_halves<vector>(from, bits);
  }
}

/// Transposes a square matrix in registers, whose rows are row[0], row[1], ...: swaps the off-diagonal blocks of half
/// its size, then of a quarter, down to single elements. Callers pass half the number of rows as `half`. The function
/// is always inlined: a call would store all rows, and load them again.
template <int half, class vector, int... lane>
[[gnu::always_inline]] inline void transpose_registers(vector* row, std::integer_sequence<int, lane...> lanes) {
  constexpr int count = sizeof...(lane);
  auto const exchange = [](vector& upper, vector& lower) {
    vector const old_upper = upper;
    upper =
        shuffled(old_upper, lower, std::integer_sequence<int, ((lane & half) != 0 ? count + lane - half : lane)...>{});
    lower =
        shuffled(old_upper, lower, std::integer_sequence<int, ((lane & half) != 0 ? count + lane : lane + half)...>{});
  };
  ((lane & half ? void() : exchange(row[lane], row[lane | half])), ...);
  if constexpr (half > 1) transpose_registers<half / 2>(row, lanes);
}

/// Two bf16 elements that are adjacent along k, the first one in the lower half: an operand of vdpbf16ps.
using bfloat16_pair = std::uint32_t;
/// The number of elements along k in one element of a packed operand.
template <class packed> inline constexpr std::int64_t elements_of = std::is_same_v<packed, bfloat16_pair> ? 2 : 1;

/// The packed element that begins at `from`. Elements are `stride` apart along k, and `remaining` of them exist; a pair
/// whose second element does not exist has 0 in its place.
template <class packed, class stored>
inline packed load_packed(stored const* from, std::int64_t stride, std::int64_t remaining) {
  if constexpr (std::is_same_v<packed, bfloat16_pair>)
    return packed{from[0].bits} | (remaining > 1 ? packed{from[stride].bits} << 16 : packed{});
  else return packed(*from);
}

/// Loads a vector of packed elements that are adjacent along k, from `from` (unaligned).
template <class packed, class stored> inline typename vector_of<packed>::vector load_along_k(stored const* from) {
  if constexpr (std::is_same_v<packed, bfloat16_pair>) {
    // `from` is only as aligned as one bf16 element.
    typedef packed unaligned __attribute__((vector_size(vector_bytes), aligned(alignof(bfloat16)), may_alias));
    return *reinterpret_cast<unaligned const*>(from);
  } else return load_wide<packed>(from);
}

/// Loads from `from` (unaligned) a vector of packed elements that have the same k, for adjacent rows of an [extent, k]
/// operand. `stride`: elements from one k to the next.
template <class packed, class stored>
[[gnu::always_inline]] inline typename vector_of<packed>::vector load_across_k(stored const* from,
                                                                               std::int64_t stride) {
  if constexpr (std::is_same_v<packed, bfloat16_pair>) {
    using vector = typename vector_of<packed>::vector;
    return __builtin_bit_cast(vector, load_wide<float>(from + stride)) |
           __builtin_bit_cast(vector, load_wide<float>(from)) >> 16;
  } else return load_wide<packed>(from);
}

/// Writes to `to` the transpose of the square matrix of packed elements whose first row is row `first` of `from`. Rows
/// are `stride` elements apart at `from`, and `width` packed elements apart at `to`. Row indices of `from` above `last`
/// are clamped to `last`.
template <class packed, int width, class stored, int... lane>
inline void copy_transposed(stored const* from, std::int64_t stride, std::int64_t first, std::int64_t last, packed* to,
                            std::integer_sequence<int, lane...> lanes) {
  typename vector_of<packed>::vector square[] = {load_along_k<packed>(from + std::min(first + lane, last) * stride)...};
  transpose_registers<sizeof...(lane) / 2>(square, lanes);
  ((*reinterpret_cast<typename vector_of<packed>::unaligned*>(to + lane * width) = square[lane]), ...);
}

/// The panels of an operand: the first `taller` of `count` panels have height + 1 rows, the other panels `height` rows,
/// except that the last panel may be incomplete.
struct gemm_panel_split {
  std::int64_t count, height, taller;

  /// As few panels as possible of at most `maximum` rows, all complete, whose heights differ by at most 1. `extent`: at
  /// least 1.
  static constexpr gemm_panel_split evenly(std::int64_t extent, std::int64_t maximum) {
    auto const count = (extent - 1) / maximum + 1;
    return {count, extent / count, extent % count};
  }
  /// Panels of `height` rows, of which the last one may be incomplete. `extent`: at least 1.
  static constexpr gemm_panel_split of_height(std::int64_t extent, std::int64_t height) {
    return {(extent - 1) / height + 1, height, 0};
  }
  /// The index of the first row of a panel; for panel `count`, the number of rows if the last panel were complete.
  constexpr std::int64_t begin(std::int64_t panel) const { return panel * height + std::min(panel, taller); }
};

/// Packs an [extent, k] operand into panels. Each panel is stored as [depth, width], where depth = ceil(k /
/// elements_of<packed>) and `width` is at least the panel's rows; the elements after these rows are arbitrary. Element
/// (i, p) is at source[i * stride + p] or, if `along_extent`, at source[p * stride + i]. If `packed` is float, 16-bit
/// elements are converted. Up to one vector may be written past the last panel.
template <int width, bool along_extent, class packed, class stored>
void gemm_pack(stored const* source, std::int64_t stride, std::int64_t extent, std::int64_t k,
               gemm_panel_split const& panels, packed* out) {
  using unaligned = typename vector_of<packed>::unaligned;
  constexpr int lanes = vector_of<packed>::lanes;
  constexpr auto elements = elements_of<packed>;
  auto const depth = (k + elements - 1) / elements, complete_depth = k / elements;
  // A vector may overrun into the elements of the next p or of the next panel, which are written later.
  constexpr int vectors = (width - 1) / lanes + 1;
  static_assert(vectors <= 2);
  auto const pack_elements = [&](std::int64_t panel, std::int64_t begin, std::int64_t end) {
    std::int64_t const k_stride = along_extent ? stride : 1, row_stride = along_extent ? 1 : stride;
    auto const first = panels.begin(panel);
    for (std::int64_t p = begin; p < end; ++p)
      for (std::int64_t i = 0; i < width; ++i) {
        auto const* const from = source + p * elements * k_stride + (first + i) * row_stride;
        out[(panel * depth + p) * width + i] =
            first + i < extent ? load_packed<packed>(from, k_stride, k - p * elements) : packed{};
      }
  };
  if constexpr (along_extent) {
    // The source has one row per k. Packs 8 of these rows for every panel, then the next 8: if more rows were packed at
    // a time, several could map to one cache set, and a page holds only a few rows.
    constexpr std::int64_t block = 8 / elements;
    for (std::int64_t begin = 0; begin < depth; begin += block)
      for (std::int64_t panel = 0; panel < panels.count; ++panel) {
        auto const first = panels.begin(panel);
        // Vectors may read past the extent, but not past the operand's last element.
        auto const excess = std::max<std::int64_t>(first + vectors * lanes - extent, 0);
        auto const readable = k - (excess + stride - 1) / stride;
        auto const end = std::min(begin + block, depth);
        auto const limit = std::min(readable / elements, vectors * lanes == width ? depth : depth - 1);
        auto const vectorized = std::clamp(limit, begin, end);
        for (std::int64_t p = begin; p < vectorized; ++p)
          for (int v = 0; v < vectors; ++v)
            *reinterpret_cast<unaligned*>(out + (panel * depth + p) * width + v * lanes) =
                load_across_k<packed>(source + p * elements * stride + first + v * lanes, stride);
        pack_elements(panel, vectorized, end);
      }
  } else {
    std::int64_t const vectorized = complete_depth / lanes * lanes;
    for (std::int64_t panel = 0; panel < panels.count; ++panel) {
      auto const first = panels.begin(panel), last = std::min(first + width, extent) - 1;
      for (std::int64_t begin = (vectors - 1) * lanes; begin >= 0; begin -= lanes)
        for (std::int64_t p = 0; p < vectorized; p += lanes)
          copy_transposed<packed, width>(source + p * elements, stride, first + begin, last,
                                         out + (panel * depth + p) * width + begin,
                                         std::make_integer_sequence<int, lanes>{});
      pack_elements(panel, vectorized, depth);
    }
  }
}

} // namespace constrain::detail
