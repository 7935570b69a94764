#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/cpu/gemm_micro.hpp"
#include "constrain/device/cpu/gemm_pack.hpp"
#include "constrain/device/cpu/gemm_panel_of_a.hpp"
#include "constrain/device/cpu/gemm_panel_of_b.hpp"
#include "constrain/device/cpu/gemm_prefetch.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

// C = alpha A B^T + beta C for an A with few rows, as in a layer's forward GEMM. With many rows, packing B takes a
// small part of the time; with 64 rows, a fifth. With the factors exchanged, C^T = alpha B A^T + beta C^T, a
// micro-kernel reads B in place, and only A is packed; in return, the micro-tiles of C^T must be transposed.

#if defined(__AVX512F__)
namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// Whether to use `gemm_few_rows` for a tile of C, [rows, columns], if `loads_limit_gemms`; with other instruction
/// sets, it was not measured. On an Intel Xeon (family 6, model 207), it made the forward GEMMs of bench/gemms.cpp 25 %
/// faster with 32 rows, 8 % with 64 and 1 % with 96 (medians over the shapes); on two Zen 5 cores, 6 % with 64. On the
/// Xeon, it was slower with more rows, with a micro-tile that lacks columns, and with a B of 150 MB.
constexpr bool prefers_few_rows(std::int64_t rows, std::int64_t columns, std::int64_t k) {
  constexpr std::int64_t width = gemm_blocking<float>::columns;
  bool const is_complete = (rows + width - 1) / width * width - rows < 6;
  bool const is_cached = columns * k <= std::int64_t{1} << 24;
  return is_complete && is_cached && rows <= 3 * width && columns >= 8 * width && k > 0;
}

/// A micro-tile of C^T: `lanes` rows, of which `rows` exist, and `width` columns, of which `columns` exist.
struct gemm_transposed_tile {
  using vector = vector_of<float>::vector;
  static constexpr int lanes = vector_of<float>::lanes, width = 2 * lanes;
  /// The type of an asm operand: `lanes` adjacent elements of C, of which a masked access touches only the first ones.
  struct elements_of_c {
    float element[lanes];
  };

  alignas(64) float element[lanes * width] = {};

  /// Reads the micro-tile from C, at `c`.
  void load(float const* c, std::int64_t ldc, std::int64_t rows, std::int64_t columns) {
    for (int half = 0; half < width; half += lanes) {
      vector square[lanes] = {};
      for (int j = 0; j < lanes; ++j)
        if (auto const* const from = reinterpret_cast<elements_of_c const*>(c + (half + j) * ldc); half + j < columns)
          asm("vmovups %1, %0 %{%2%} %{z%}" : "=v"(square[j]) : "m"(*from), "Yk"(mask(rows)));
      transpose_registers<lanes / 2>(square, std::make_integer_sequence<int, lanes>{});
      for (int i = 0; i < lanes; ++i) at(i, half) = square[i];
    }
  }
  /// Writes the micro-tile to C, at `c`.
  void store(float* c, std::int64_t ldc, std::int64_t rows, std::int64_t columns) {
    for (int half = 0; half < width; half += lanes) {
      vector square[lanes];
      for (int i = 0; i < lanes; ++i) square[i] = at(i, half);
      transpose_registers<lanes / 2>(square, std::make_integer_sequence<int, lanes>{});
      for (int j = 0; j < lanes; ++j)
        if (auto* const to = reinterpret_cast<elements_of_c*>(c + (half + j) * ldc); half + j < columns)
          asm("vmovups %1, %0 %{%2%}" : "+m"(*to) : "v"(square[j]), "Yk"(mask(rows)));
    }
  }

private:
  /// The mask of the first `count` lanes.
  static std::uint16_t mask(std::int64_t count) { return static_cast<std::uint16_t>((1 << count) - 1); }
  /// The vector of row i that begins with column `half`.
  vector& at(int i, int half) { return *reinterpret_cast<vector*>(element + i * width + half); }
};

/// C = alpha A B^T + beta C for A [rows, k], B [columns, k] and C [rows, columns], all in row-major order. `rows`: at
/// most 96; `columns`: at least 78, so that the panels of B have 12 to 14 rows. Every element is summed in the same
/// order as by `gemm_tile`, so its bits are the same, unless it is a NaN.
inline void gemm_few_rows(std::int64_t rows, std::int64_t columns, std::int64_t k, float alpha, float const* a,
                          std::int64_t lda, float const* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  using blocking = gemm_blocking<float>;
  constexpr std::int64_t width = blocking::columns, depth = blocking::depth;
  static_assert(3 * width * depth * sizeof(float) <= gemm_buffer_bytes);
  auto const panels_of_b = gemm_panel_split::evenly(columns, blocking::rows);
  auto const panels_of_a = gemm_panel_split::of_height(rows, width);
  auto* const packed_a = reinterpret_cast<float*>(gemm_buffer);
  auto const part_of_k =
      static_cast<std::int64_t>(gemm_buffer_bytes / sizeof(float)) / (panels_of_a.count * width) / depth * depth;
  gemm_transposed_tile tile;
  for (std::int64_t part = 0; part < k; part += part_of_k) {
    auto const end = std::min(part + part_of_k, k);
    auto const depth_at = [=](std::int64_t p) { return std::min(depth, end - p); };
    auto const packed_at = [=](std::int64_t p) { return packed_a + (p - part) * panels_of_a.count * width; };
    for (std::int64_t p = part; p < end; p += depth)
      gemm_pack<width, false>(a + p, lda, rows, depth_at(p), panels_of_a, packed_at(p));
    float const first_beta = part == 0 ? beta : 1.0f;
    for (std::int64_t i = 0; i < panels_of_b.count; ++i)
      for (std::int64_t j = 0; j < panels_of_a.count; ++j) {
        auto const first = panels_of_b.begin(i), height = panels_of_b.begin(i + 1) - first;
        auto const tile_columns = std::min(width, rows - j * width);
        float* const tile_of_c = c + j * width * ldc + first;
        if (first_beta != 0) tile.load(tile_of_c, ldc, height, tile_columns);
        for (std::int64_t p = part; p < end; p += depth) {
          gemm_scales<float> const scales = {alpha, p == part ? first_beta : 1.0f};
          gemm_rows_in_place<float> const panel_of_b = {b + first * ldb + p, ldb};
          gemm_packed_panel<float> const panel_of_a = {packed_at(p) + j * depth_at(p) * width, width};
          gemm_prefetches prefetch{};
          gemm_rows<float>(height, depth_at(p), panel_of_b, panel_of_a, scales, tile.element, width, prefetch);
        }
        tile.store(tile_of_c, ldc, height, tile_columns);
      }
  }
}

} // namespace constrain::detail
#endif
