#pragma once

#include "constrain/device/cuda/tile/strip.cuh"

#include <cstdint>

/// Products of matrices of a warp. 16-bit elements are multiplied by tensor cores, and summed in fp32. Wider elements
/// are multiplied by ordinary arithmetic, in the same layout of registers.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Whether tensor cores multiply elements of this type.
template <class element> inline constexpr bool for_tensor_cores = sizeof(element) == 2;

/// Rows [first, first + 16) of a tile, as the left operand of products. `in_registers`: the rows are loaded once, by
/// `take`, instead of for each product; this needs 16-bit elements.
template <class tile_, bool in_registers> class tile_rows {
public:
  using tile = tile_;

  __device__ tile_rows(tile const& of, int first) : of_(of), first_(first) {}

  /// Loads the rows. Call this function whenever the tile has changed.
  __device__ void take() {
    if constexpr (in_registers)
CT_UNROLL
      for (int step = 0; step < tile::columns / 16; ++step) load(step, held_[step]);
  }
  /// Columns [16 step, 16 step + 16), as operand A of a tensor core.
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
    if constexpr (in_registers)
      for (int i = 0; i < 4; ++i) a[i] = held_[step][i];
    else load(step, a);
  }
  /// The first element of unit `unit` of row first + `row`.
  __device__ auto const* at(int row, int unit) const { return of_.at(first_ + row, unit); }

private:
  __device__ void load(int step, std::uint32_t (&a)[4]) const {
    int const lane = ptx::twin::lane();
    ptx::load_matrices(a, of_.at(first_ + lane % 16, 2 * step + lane / 16));
  }

  tile const& of_;
  int first_;
  std::uint32_t held_[in_registers ? tile::columns / 16 : 1][4];
};

/// c += a b^T, where a is [16, depth], b [columns, depth] and c [16, columns].
template <class real, int columns, class rows, class tile>
__device__ void multiply_transposed(strip<real, columns>& c, rows const& a, tile const& b) {
  static_assert(tile::rows == columns && tile::columns == rows::tile::columns);
  if constexpr (for_tensor_cores<typename tile::element>) {
    int const lane = ptx::twin::lane();
CT_UNROLL
    for (int step = 0; step < tile::columns / 16; ++step) {
      std::uint32_t left[4], right[4];
      a.fragment(step, left);
CT_UNROLL
      for (int j = 0; j < columns / 16; ++j) {
        ptx::load_matrices(right, b.at(16 * j + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
        ptx::multiply_add<typename tile::element>(c.values[2 * j], left, {right[0], right[1]});
        ptx::multiply_add<typename tile::element>(c.values[2 * j + 1], left, {right[2], right[3]});
      }
    }
  } else {
    for (int unit = 0; unit < tile::units; ++unit)
CT_UNROLL
      for (int j = 0; j < columns / 8; ++j)
CT_UNROLL
        for (int i = 0; i < 4; ++i) {
          auto const* const left = a.at(strip<real, columns>::row(i / 2), unit);
          auto const* const right = b.at(8 * j + static_cast<int>(threadIdx.x % 4) * 2 + i % 2, unit);
CT_UNROLL
          for (int k = 0; k < tile::in_unit; ++k) c.values[j][i] += left[k] * right[k];
        }
  }
}

/// c += a b, where a is [16, depth], b [depth, columns] and c [16, columns]. For tensor cores, a is rounded to the type
/// of b.
template <class real, int columns, int depth, class tile>
__device__ void multiply(strip<real, columns>& c, strip<real, depth> const& a, tile const& b) {
  static_assert(tile::rows == depth && tile::columns == columns);
  if constexpr (for_tensor_cores<typename tile::element>) {
    using element = typename tile::element;
    int const lane = ptx::twin::lane();
CT_UNROLL
    for (int step = 0; step < depth / 16; ++step) {
      auto const& left = a.values[2 * step];
      auto const& next = a.values[2 * step + 1];
      std::uint32_t const words[] = {ptx::pair_of<element>(left[0], left[1]), ptx::pair_of<element>(left[2], left[3]),
                                     ptx::pair_of<element>(next[0], next[1]), ptx::pair_of<element>(next[2], next[3])};
CT_UNROLL
      for (int j = 0; j < columns / 16; ++j) {
        std::uint32_t right[4];
        ptx::load_transposed_matrices(right, b.at(16 * step + lane % 16, 2 * j + lane / 16));
        ptx::multiply_add<element>(c.values[2 * j], words, {right[0], right[1]});
        ptx::multiply_add<element>(c.values[2 * j + 1], words, {right[2], right[3]});
      }
    }
  } else {
    int const lane = ptx::twin::lane(), first = lane / 4 * 4; // the first of the lanes that hold this lane's rows
CT_UNROLL
    for (int eight = 0; eight < depth / 8; ++eight)
      for (int holder = 0; holder < 4; ++holder)
CT_UNROLL
        for (int odd = 0; odd < 2; ++odd) {
          auto const upper = __shfl_sync(ptx::twin::all_lanes, a.values[eight][odd], first + holder);
          auto const lower = __shfl_sync(ptx::twin::all_lanes, a.values[eight][2 + odd], first + holder);
CT_UNROLL
          for (int j = 0; j < columns / 8; ++j)
CT_UNROLL
            for (int i = 0; i < 2; ++i) {
              int const column = 8 * j + lane % 4 * 2 + i;
              auto const right = b.at(8 * eight + 2 * holder + odd, column / tile::in_unit)[column % tile::in_unit];
              c.values[j][i] += upper * right;
              c.values[j][2 + i] += lower * right;
            }
        }
  }
}

} // namespace constrain
