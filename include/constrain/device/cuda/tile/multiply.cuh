#pragma once

#include "constrain/device/cuda/tile/strip.cuh"

#include <cstdint>

/// Products of matrices of a warp. 16-bit elements are multiplied by tensor cores, and summed in fp32. Wider elements
/// are multiplied by ordinary arithmetic, in the same layout of registers.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether tensor cores multiply elements of this type.
template <class element> inline constexpr bool for_tensor_cores = sizeof(element) == 2;

/// Rows [first, first + rows) of a tile, as the left operand of products.
template <class tile_, int rows> class tile_rows {
public:
  using tile = tile_;

  /// `first`: index of the first row.
  __device__ tile_rows(tile const& of, int first) : of_(of), first_(first) {}

  /// Rows [row, row + 16) and columns [16 step, 16 step + 16), as operand A of a tensor core.
  __device__ void fragment(int row, int step, std::uint32_t (&a)[4]) const {
    int const lane = ptx::twin::lane();
    ptx::load_matrices(a, of_.at(first_ + row + lane % 16, 2 * step + lane / 16));
  }
  /// The first element of unit `unit` of row first + `row`.
  __device__ auto const* at(int row, int unit) const { return of_.at(first_ + row, unit); }

private:
  tile const& of_;
  int first_;
};

/// c += a b^T, where a is [rows, depth], b [columns, depth] and c [rows, columns].
template <class real, int rows, int columns, class left_tile, class tile>
__device__ void multiply_transposed(strip<real, rows, columns>& c, tile_rows<left_tile, rows> const& a, tile const& b) {
  static_assert(tile::rows == columns && tile::columns == left_tile::columns);
  int const lane = ptx::twin::lane();
  if constexpr (for_tensor_cores<typename tile::element>) {
    CT_UNROLL
    for (int step = 0; step < tile::columns / 16; ++step) {
      std::uint32_t left[rows / 16][4], right[4];
      CT_UNROLL
      for (int m = 0; m < rows / 16; ++m) a.fragment(16 * m, step, left[m]);
      CT_UNROLL
      for (int j = 0; j < columns / 16; ++j) {
        ptx::load_matrices(right, b.at(16 * j + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
        CT_UNROLL
        for (int m = 0; m < rows / 16; ++m) {
          ptx::multiply_add<typename tile::element>(c.values[m][2 * j], left[m], {right[0], right[1]});
          ptx::multiply_add<typename tile::element>(c.values[m][2 * j + 1], left[m], {right[2], right[3]});
        }
      }
    }
  } else {
    CT_KEEP_LOOP
    for (int unit = 0; unit < tile::units; ++unit)
      c.for_each([&](real& sum, int line, int column) {
        auto const* const left = a.at(c.row(line), unit);
        auto const* const right = b.at(column, unit);
        CT_UNROLL
        for (int k = 0; k < tile::in_unit; ++k) sum += left[k] * right[k];
      });
  }
}

/// c += a b, where a is [rows, depth], b [depth, columns] and c [rows, columns]. For tensor cores, a is rounded to the
/// type of b.
template <class real, int rows, int columns, int depth, class tile>
__device__ void multiply(strip<real, rows, columns>& c, strip<real, rows, depth>& a, tile const& b) {
  static_assert(tile::rows == depth && tile::columns == columns);
  using element = typename tile::element;
  int const lane = ptx::twin::lane();
  if constexpr (for_tensor_cores<element>) {
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
        ptx::load_transposed_matrices(right, b.at(16 * step + lane % 16, 2 * j + lane / 16));
        CT_UNROLL
        for (int m = 0; m < rows / 16; ++m) {
          ptx::multiply_add<element>(c.values[m][2 * j], left[m], {right[0], right[1]});
          ptx::multiply_add<element>(c.values[m][2 * j + 1], left[m], {right[2], right[3]});
        }
      }
    }
  } else {
    static_assert(rows == 16);
    int const first = lane / 4 * 4; // the first of the lanes that hold this lane's rows
    CT_UNROLL
    for (int eight = 0; eight < depth / 8; ++eight) {
      CT_KEEP_LOOP
      for (int holder = 0; holder < 4; ++holder) {
        CT_UNROLL
        for (int odd = 0; odd < 2; ++odd) {
          auto const upper = __shfl_sync(ptx::twin::all_lanes, a.values[0][eight][odd], first + holder);
          auto const lower = __shfl_sync(ptx::twin::all_lanes, a.values[0][eight][2 + odd], first + holder);
          c.for_each([&](real& sum, int line, int column) {
            auto const* const right = b.at(8 * eight + 2 * holder + odd, column / tile::in_unit);
            sum += (line == 0 ? upper : lower) * right[column % tile::in_unit];
          });
        }
      }
    }
  }
}

} // namespace constrain
