#pragma once

#include "constrain/device/cuda/tile/shared_tile.cuh"

#include <cstdint>

/// Left operands of a warp's matrix multiplications: rows of a tile, in shared memory or in registers.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Rows [first, first + rows) of a tile in shared memory, as a left operand.
template <class tile, int rows> class tile_rows {
public:
  static constexpr int columns = tile::columns;

  /// `source` must outlive this object. `first`: index of the first row, a multiple of 8.
  __device__ tile_rows(tile const& source, int first)
      : source_(source), first_(first),
        lane_address_(ptx::address_of(source.at(first + ptx::twin::lane() % 16, ptx::twin::lane() / 16))) {}

  /// Sets `a` to this lane's registers of operand A of mma.sync.m16n8k16, for rows [row, row + 16), counted from
  /// `first`, and columns [16 k_block, 16 k_block + 16). `row`: a multiple of 8. All lanes of the warp must call this
  /// function together.
  __device__ void fragment(int row, int k_block, std::uint32_t (&a)[4]) const {
    ptx::load_matrices(a, tile::moved(lane_address_, row, 2 * k_block));
  }
  /// The first element of unit `unit` of row first + `row`.
  __device__ auto const* at(int row, int unit) const { return source_.at(first_ + row, unit); }

private:
  tile const& source_;
  int first_;
  // the address that this lane passes to ldmatrix for rows [first, first + 16) and columns [0, 16) of the tile
  ptx::shared_address lane_address_;
};

/// Rows of a tile of 16-bit elements in the registers of a warp, as the left operand of many multiplications.
template <class tile, int rows> class held_rows {
public:
  static constexpr int columns = tile::columns;

  /// Loads the rows into registers. All lanes of the warp must call this function together.
  __device__ void load(tile_rows<tile, rows> const& from) {
    CT_UNROLL
    for (int k_block = 0; k_block < tile::columns / 16; ++k_block) {
      CT_UNROLL
      for (int m = 0; m < rows / 16; ++m) from.fragment(16 * m, k_block, fragments_[m][k_block]);
    }
  }
  /// Like tile_rows::fragment; `row` must be a multiple of 16.
  __device__ void fragment(int row, int k_block, std::uint32_t (&a)[4]) const {
    CT_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = fragments_[row / 16][k_block][i];
  }

private:
  std::uint32_t fragments_[rows / 16][tile::columns / 16][4];
};

/// Rows of two tiles side by side, as a left operand: the left tile's rows are in registers, the right tile's rows in
/// shared memory.
template <class half, int rows> class half_held_rows {
public:
  static constexpr int columns = 2 * half::columns;

  /// The tile of `right` must outlive this object.
  __device__ half_held_rows(tile_rows<half, rows> const& right) : right_(right) {}
  /// Loads the rows of the left tile into registers, as held_rows::load does.
  __device__ void load(tile_rows<half, rows> const& left) { left_.load(left); }
  /// Like tile_rows::fragment; `row` must be a multiple of 16.
  __device__ void fragment(int row, int k_block, std::uint32_t (&a)[4]) const {
    constexpr int blocks = half::columns / 16;
    if (k_block < blocks) left_.fragment(row, k_block, a);
    else right_.fragment(row, k_block - blocks, a);
  }

private:
  held_rows<half, rows> left_;
  tile_rows<half, rows> right_;
};

} // namespace constrain
