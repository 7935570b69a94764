#pragma once

#include "constrain/device/cuda/tile/left_rows.cuh"
#include "constrain/device/cuda/tile/strip.cuh"

#include <cstdint>

/// Warp-level matrix multiplications: all lanes of a warp call each function together. For 16-bit elements, they use
/// tensor cores, which accumulate in fp32; for fp32 and fp64 elements, FMA instructions, in the same register layout.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether tensor cores multiply elements of this type.
template <class element> inline constexpr bool for_tensor_cores = sizeof(element) == 2;

/// Adds to c, on tensor cores, the terms of a b^T from columns [16 k_block, 16 k_block + 16) of a and b. If `k_block`
/// is 0, sets c to `start` plus these terms. `lane_address`: the result of `lane_address_of_transposed(b)`. Other
/// arguments as in `multiply_transposed`.
template <class tile, class accumulate, int rows, int columns, class left_rows, class function>
__device__ void multiply_transposed_block(strip<accumulate, rows, columns>& c, left_rows const& a,
                                          ptx::shared_address lane_address, int first, int k_block,
                                          function const& start) {
  using element = typename tile::element;
  std::uint32_t left[rows / 16][4], right[4];
  CT_UNROLL
  for (int m = 0; m < rows / 16; ++m) a.fragment(16 * m, k_block, left[m]);
  CT_UNROLL
  for (int j = 0; j < columns / 16; ++j) {
    ptx::load_matrices(right, tile::moved(lane_address, first + 16 * j, 2 * k_block));
    CT_UNROLL
    for (int i = 0; i < rows / 16 * 2; ++i) {
      int const m = i / 2, n = 2 * j + i % 2;
      auto& sum = c.values[m][n];
      std::uint32_t const pair[] = {right[i % 2 * 2], right[i % 2 * 2 + 1]};
      if (k_block == 0) ptx::multiply_add<element>(sum, left[m], pair, start(m, n).values);
      else ptx::multiply_add<element>(sum, left[m], pair);
    }
  }
}
/// The address that this lane passes to ldmatrix for rows [0, 16) and columns [0, 16) of b, the right operand of a b^T.
template <class tile> __device__ ptx::shared_address lane_address_of_transposed(tile const& b) {
  int const lane = ptx::twin::lane();
  return ptx::address_of(b.at(lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

/// c = start + a b^T, with a [rows, depth] and c [rows, columns]; of the tile b [tile::rows, depth], only rows
/// [first, first + columns) are used. `start(m, n)`: the strip_block of rows [16 m, 16 m + 16) and columns
/// [8 n, 8 n + 8). `first`: a multiple of 8.
template <class accumulate, int rows, int columns, class left_rows, class tile, class function>
__device__ void multiply_transposed(strip<accumulate, rows, columns>& c, left_rows const& a, tile const& b, int first,
                                    function const& start) {
  static_assert(tile::rows % columns == 0 && tile::columns == left_rows::columns);
  if constexpr (for_tensor_cores<typename tile::element>) {
    auto const lane_address = lane_address_of_transposed(b);
    CT_UNROLL
    for (int k_block = 0; k_block < tile::columns / 16; ++k_block)
      multiply_transposed_block<tile>(c, a, lane_address, first, k_block, start);
  } else {
    c.begin_with(start);
    CT_KEEP_LOOP
    for (int unit = 0; unit < tile::units; ++unit)
      c.for_each([&](accumulate& sum, int line, int column) {
        auto const* const left = a.at(c.row(line), unit);
        auto const* const right = b.at(first + column, unit);
        CT_UNROLL
        for (int k = 0; k < tile::unit_elements; ++k) sum += left[k] * right[k];
      });
  }
}
/// c += a b^T, as above.
template <class accumulate, int rows, int columns, class left_rows, class tile>
__device__ void multiply_transposed(strip<accumulate, rows, columns>& c, left_rows const& a, tile const& b,
                                    int first = 0) {
  multiply_transposed(c, a, b, first, [&](int m, int n) { return c.block(m, n); });
}

/// c += a b, with a [rows, depth] and c [rows, columns]; of the tile b [tile::rows, columns], only rows
/// [first, first + depth) are used. For tensor cores, a is rounded to the type of b; for fp32 and fp64, `rows` must be
/// 16. `first`: a multiple of 8.
template <class accumulate, int rows, int columns, int depth, class tile>
__device__ void multiply(strip<accumulate, rows, columns>& c, strip<accumulate, rows, depth> const& a, tile const& b,
                         int first = 0) {
  static_assert(tile::rows % depth == 0 && tile::columns == columns);
  using element = typename tile::element;
  int const lane = ptx::twin::lane();
  if constexpr (for_tensor_cores<element>) {
    auto const lane_address = ptx::address_of(b.at(lane % 16, lane / 16));
    CT_UNROLL
    for (int k_block = 0; k_block < depth / 16; ++k_block) {
      std::uint32_t left[rows / 16][4], right[4];
      CT_UNROLL
      for (int i = 0; i < rows / 16 * 4; ++i) {
        auto const& block = a.values[i / 4][2 * k_block + i % 4 / 2]; // 16 rows, 8 columns
        left[i / 4][i % 4] = ptx::pair_of<element>(block[i % 2 * 2], block[i % 2 * 2 + 1]);
      }
      CT_UNROLL
      for (int j = 0; j < columns / 16; ++j) {
        ptx::load_transposed_matrices(right, tile::moved(lane_address, first + 16 * k_block, 2 * j));
        CT_UNROLL
        for (int m = 0; m < rows / 16; ++m) {
          ptx::multiply_add<element>(c.values[m][2 * j], left[m], {right[0], right[1]});
          ptx::multiply_add<element>(c.values[m][2 * j + 1], left[m], {right[2], right[3]});
        }
      }
    }
  } else {
    static_assert(rows == 16);
    int const quad = lane / 4 * 4; // the first lane of this lane's quad, which holds the same rows
    CT_UNROLL
    for (int k8 = 0; k8 < depth / 8; ++k8) {
      CT_KEEP_LOOP
      for (int source = 0; source < 4; ++source) {
        CT_UNROLL
        for (int odd = 0; odd < 2; ++odd) {
          auto const upper = __shfl_sync(ptx::twin::all_lanes, a.values[0][k8][odd], quad + source);
          auto const lower = __shfl_sync(ptx::twin::all_lanes, a.values[0][k8][2 + odd], quad + source);
          c.for_each([&](accumulate& sum, int line, int column) {
            auto const* const right = b.at(first + 8 * k8 + 2 * source + odd, column / tile::unit_elements);
            sum += (line == 0 ? upper : lower) * right[column % tile::unit_elements];
          });
        }
      }
    }
  }
}

} // namespace constrain
