#pragma once

#include "constrain/device/cuda/tile/shared_tile.cuh"

#include <concepts>
#include <cstdint>

#include <cuda_runtime.h>
#include <sm_30_intrinsics.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A matrix [rows, columns] in the registers of a warp. Each 16 rows are laid out as the results of tensor cores
/// (mma.sync.m16n8k16): with g = lane / 4 and t = lane % 4, a lane holds the elements of rows g, g + 8, g + 16, ...
/// (its lines) in the columns whose remainder modulo 8 is 2t or 2t + 1.
template <class real_, int rows_, int columns_> struct strip {
  using real = real_;
  static constexpr int rows = rows_, columns = columns_;
  static constexpr int lines = rows / 8; // rows of which a lane holds elements

  real values[rows / 16][columns / 8][4]; // [16 rows][8 columns][row g: two columns; row g + 8: two columns]

  /// The row of this lane's line `line`.
  __device__ static int row(int line) { return static_cast<int>(threadIdx.x % 32) / 4 + 8 * line; }
  /// This lane's element in a line and a column.
  __device__ real& at(int line, int column) { return values[line / 2][column / 8][line % 2 * 2 + column % 2]; }

  /// Sets all elements to 0.
  __device__ void clear() {
    for_each([](real& x, int, int) { x = 0; });
  }
  /// Calls `f(element, line, column)` for each element of this lane.
  template <class function> __device__ void for_each(function const& f) {
    int const first = static_cast<int>(threadIdx.x % 4) * 2;
    CT_UNROLL
    for (int line = 0; line < lines; ++line) {
      CT_UNROLL
      for (int i = 0; i < columns / 4; ++i) {
        int const column = i / 2 * 8 + first + i % 2;
        f(values[line / 2][i / 2][line % 2 * 2 + i % 2], line, column);
      }
    }
  }
  /// Writes the elements to rows [first, first + rows) of a tile.
  template <class tile> __device__ void write(tile& to, int first) {
    for_each([&](real x, int line, int column) {
      using element = typename tile::element;
      to.at(first + row(line), column / tile::in_unit)[column % tile::in_unit] = element(x);
    });
  }
};

/// Reduces one value per lane over the four lanes that hold a row of a strip. All lanes of the warp must take part.
template <class real, class function> __device__ real over_row(real x, function const& combine) {
  x = combine(x, __shfl_xor_sync(ptx::twin::all_lanes, x, 1));
  return combine(x, __shfl_xor_sync(ptx::twin::all_lanes, x, 2));
}

} // namespace constrain
