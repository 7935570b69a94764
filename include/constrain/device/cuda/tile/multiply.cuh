#pragma once

#include "constrain/device/cuda/tile/left_rows.cuh"
#include "constrain/device/cuda/tile/strip.cuh"

#include <cstdint>

/// A warp's matrix multiplications. Tensor cores multiply 16-bit elements and sum in fp32. Ordinary instructions
/// multiply fp32 and fp64 elements, in the same register layout.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether tensor cores multiply elements of this type.
template <class element> inline constexpr bool for_tensor_cores = sizeof(element) == 2;

/// Adds to c, on tensor cores, the terms of a b^T from columns [16 slice, 16 slice + 16) of a and b; for slice 0, sets
/// c to `start` plus these terms. See `multiply_transposed`. `of_lane`: the result of `right_of_transposed(b)`.
template <class tile, class real, int rows, int columns, class left_rows, class function>
__device__ void multiply_transposed_slice(strip<real, rows, columns>& c, left_rows const& a,
                                          ptx::shared_address of_lane, int first, int slice, function const& start) {
  using element = typename tile::element;
  std::uint32_t left[rows / 16][4], right[4];
  CT_UNROLL
  for (int m = 0; m < rows / 16; ++m) a.fragment(16 * m, slice, left[m]);
  CT_UNROLL
  for (int j = 0; j < columns / 16; ++j) {
    ptx::load_matrices(right, tile::moved(of_lane, first + 16 * j, 2 * slice));
    CT_UNROLL
    for (int i = 0; i < rows / 16 * 2; ++i) {
      int const m = i / 2, n = 2 * j + i % 2;
      auto& sum = c.values[m][n];
      std::uint32_t const pair[] = {right[i % 2 * 2], right[i % 2 * 2 + 1]};
      if (slice == 0) ptx::multiply_add<element>(sum, left[m], pair, start(m, n).of);
      else ptx::multiply_add<element>(sum, left[m], pair);
    }
  }
}
/// The address that this lane passes for rows [0, 16) and columns [0, 16) of b, the right operand of a b^T.
template <class tile> __device__ ptx::shared_address right_of_transposed(tile const& b) {
  int const lane = ptx::twin::lane();
  return ptx::address_of(b.at(lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

/// c = start + a b^T, where a is [rows, depth], b rows [first, first + columns) of a tile [.., depth], and c [rows,
/// columns]. `start(m, n)`: the strip_block of rows [16 m, 16 m + 16) and columns [8 n, 8 n + 8). `first`: a multiple
/// of 8.
template <class real, int rows, int columns, class left_rows, class tile, class function>
__device__ void multiply_transposed(strip<real, rows, columns>& c, left_rows const& a, tile const& b, int first,
                                    function const& start) {
  static_assert(tile::rows % columns == 0 && tile::columns == left_rows::columns);
  if constexpr (for_tensor_cores<typename tile::element>) {
    auto const of_lane = right_of_transposed(b);
    CT_UNROLL
    for (int slice = 0; slice < tile::columns / 16; ++slice)
      multiply_transposed_slice<tile>(c, a, of_lane, first, slice, start);
  } else {
    c.begin_with(start);
    CT_KEEP_LOOP
    for (int unit = 0; unit < tile::units; ++unit)
      c.for_each([&](real& sum, int line, int column) {
        auto const* const left = a.at(c.row(line), unit);
        auto const* const right = b.at(first + column, unit);
        CT_UNROLL
        for (int k = 0; k < tile::in_unit; ++k) sum += left[k] * right[k];
      });
  }
}
/// c += a b^T.
template <class real, int rows, int columns, class left_rows, class tile>
__device__ void multiply_transposed(strip<real, rows, columns>& c, left_rows const& a, tile const& b, int first = 0) {
  multiply_transposed(c, a, b, first, [&](int m, int n) { return c.block(m, n); });
}

/// c += a b, where a is [rows, depth], b rows [first, first + depth) of a tile [.., columns], and c [rows, columns].
/// For tensor cores, a is rounded to the type of b. `first`: a multiple of 8.
template <class real, int rows, int columns, int depth, class tile>
__device__ void multiply(strip<real, rows, columns>& c, strip<real, rows, depth>& a, tile const& b, int first = 0) {
  static_assert(tile::rows % depth == 0 && tile::columns == columns);
  using element = typename tile::element;
  int const lane = ptx::twin::lane();
  if constexpr (for_tensor_cores<element>) {
    auto const of_lane = ptx::address_of(b.at(lane % 16, lane / 16));
    CT_UNROLL
    for (int step = 0; step < depth / 16; ++step) {
      std::uint32_t left[rows / 16][4], right[4];
      CT_UNROLL
      for (int i = 0; i < rows / 16 * 4; ++i) {
        auto const& eight = a.values[i / 4][2 * step + i % 4 / 2]; // 16 rows, 8 columns
        left[i / 4][i % 4] = ptx::pair_of<element>(eight[i % 2 * 2], eight[i % 2 * 2 + 1]);
      }
      CT_UNROLL
      for (int j = 0; j < columns / 16; ++j) {
        ptx::load_transposed_matrices(right, tile::moved(of_lane, first + 16 * step, 2 * j));
        CT_UNROLL
        for (int m = 0; m < rows / 16; ++m) {
          ptx::multiply_add<element>(c.values[m][2 * j], left[m], {right[0], right[1]});
          ptx::multiply_add<element>(c.values[m][2 * j + 1], left[m], {right[2], right[3]});
        }
      }
    }
  } else {
    static_assert(rows == 16);
    int const holders = lane / 4 * 4; // the first of the four lanes that hold the same rows as this lane
    CT_UNROLL
    for (int eight = 0; eight < depth / 8; ++eight) {
      CT_KEEP_LOOP
      for (int holder = 0; holder < 4; ++holder) {
        CT_UNROLL
        for (int odd = 0; odd < 2; ++odd) {
          auto const upper = __shfl_sync(ptx::twin::all_lanes, a.values[0][eight][odd], holders + holder);
          auto const lower = __shfl_sync(ptx::twin::all_lanes, a.values[0][eight][2 + odd], holders + holder);
          c.for_each([&](real& sum, int line, int column) {
            auto const* const right = b.at(first + 8 * eight + 2 * holder + odd, column / tile::in_unit);
            sum += (line == 0 ? upper : lower) * right[column % tile::in_unit];
          });
        }
      }
    }
  }
}

} // namespace constrain
