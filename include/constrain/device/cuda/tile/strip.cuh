#pragma once

#include "constrain/device/cuda/tile/shared_tile.cuh"

#include <concepts>
#include <cstdint>

#include <cuda_runtime.h>
#include <sm_30_intrinsics.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// One lane's four elements of a block of 16 rows and 8 columns of a `strip`: two adjacent elements of row g, then two
/// of row g + 8, where g = lane / 4.
template <class real> struct strip_block { real values[4]{}; };

/// A matrix [rows, columns] in the registers of a warp. Every block of 16 rows and 8 columns has the layout of an
/// accumulator fragment of mma.sync.m16n8k16: with g = lane / 4 and t = lane % 4, a lane holds the elements of rows g,
/// g + 8, g + 16, ... (its lines) in the columns whose remainder modulo 8 is 2t or 2t + 1.
template <class real_, int rows_, int columns_> struct strip {
  using real = real_;
  static constexpr int rows = rows_, columns = columns_;
  static constexpr int lines = rows / 8; // rows of which a lane holds elements

  real values[rows / 16][columns / 8][4]; // [block of 16 rows][block of 8 columns][as in strip_block]

  /// The row of this lane's line `line`.
  __device__ static int row(int line) { return static_cast<int>(threadIdx.x % 32) / 4 + 8 * line; }
  /// The column of this lane's element `i` in a line. Each lane has columns / 4 elements of a line.
  __device__ static int column(int i) { return i / 2 * 8 + static_cast<int>(threadIdx.x % 4) * 2 + i % 2; }
  /// This lane's element in line `line` and column `column`, which must be one of this lane's columns.
  __device__ real& at(int line, int column) { return values[line / 2][column / 8][line % 2 * 2 + column % 2]; }

  /// Sets all elements to 0.
  __device__ void clear() {
    for_each([](real& x, int, int) { x = 0; });
  }
  /// This lane's elements of rows [16 m, 16 m + 16) and columns [8 n, 8 n + 8).
  __device__ strip_block<real> block(int m, int n) const {
    auto const& x = values[m][n];
    return {x[0], x[1], x[2], x[3]};
  }
  /// Sets each block (m, n), as in `block`, to start(m, n). Calls `start` once per element, so it must give the same
  /// block each time.
  template <class function> __device__ void begin_with(function const& start) {
    CT_UNROLL
    for (int i = 0; i < rows / 16 * (columns / 8) * 4; ++i) {
      int const m = i / 4 / (columns / 8), n = i / 4 % (columns / 8);
      values[m][n][i % 4] = start(m, n).values[i % 4];
    }
  }
  /// Calls `f(element, line, column)` for each element of this lane.
  template <class function> __device__ void for_each(function const& f) {
    CT_UNROLL
    for (int line = 0; line < lines; ++line) {
      CT_UNROLL
      for (int i = 0; i < columns / 4; ++i) f(values[line / 2][i / 2][line % 2 * 2 + i % 2], line, column(i));
    }
  }
  /// Rounds the elements to the tile's type, and writes them to rows [first, first + rows) and columns [0, columns) of
  /// the tile. `first`: a multiple of 8.
  template <class tile> __device__ void write(tile& to, int first) {
    using element = typename tile::element;
    if constexpr (sizeof(element) == 2) {
      static_assert(columns <= tile::columns);
      // The elements of 8 columns, two per lane, fill one 16-byte unit.
      int const offset = tile::offset(first + row(0), 0) + static_cast<int>(threadIdx.x % 4) * 4;
      CT_UNROLL
      for (int i = 0; i < lines * (columns / 8); ++i) {
        int const line = i % lines, n = i / lines;
        auto const* const x = &values[line / 2][n][line % 2 * 2];
        *reinterpret_cast<std::uint32_t*>(to.bytes + tile::moved(offset, 8 * line, n)) =
            ptx::pair_of<element>(x[0], x[1]);
      }
    } else
      for_each([&](real x, int line, int column) {
        to.at(first + row(line), column / tile::unit_elements)[column % tile::unit_elements] = element(x);
      });
  }
};

/// Reduces one value per lane over the four lanes that hold a row of a strip. All four get the result. `combine` must
/// be commutative. All lanes of the warp must take part.
template <class real, class function> __device__ real over_row(real x, function const& combine) {
  x = combine(x, __shfl_xor_sync(ptx::twin::all_lanes, x, 1));
  return combine(x, __shfl_xor_sync(ptx::twin::all_lanes, x, 2));
}

} // namespace constrain
