#pragma once

#include "constrain/device/cuda/tile/shared_tile.cuh"

#include <concepts>
#include <cstdint>

#include <cuda_runtime.h>
#include <sm_30_intrinsics.h>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A matrix [16, columns] in the registers of a warp, laid out as the results of tensor cores (mma.sync.m16n8k16): with
/// g = lane / 4 and t = lane % 4, a lane holds the elements in rows g and g + 8, and in the columns whose remainder
/// modulo 8 is 2t or 2t + 1.
template <class real_, int columns_> struct strip {
  using real = real_;
  static constexpr int columns = columns_;

  real values[columns / 8][4]; // [8 columns][row g: two columns; row g + 8: two columns]

  /// The row of this lane's elements: g if `lower` is 0, g + 8 if it is 1.
  __device__ static int row(int lower) { return static_cast<int>(threadIdx.x % 32) / 4 + 8 * lower; }

  /// Sets all elements to 0.
  __device__ void clear() {
    for_each([](real& x, int, int) { x = 0; });
  }
  /// Calls `f(element, lower, column)` for each element of this lane; `lower`: as for `row`.
  template <class function> __device__ void for_each(function const& f) {
    int const first = static_cast<int>(threadIdx.x % 4) * 2;
CT_UNROLL
    for (int j = 0; j < columns / 8; ++j)
CT_UNROLL
      for (int i = 0; i < 4; ++i) f(values[j][i], i / 2, 8 * j + first + i % 2);
  }
  /// Writes the elements, times `scale[lower]`, to rows [first, first + 16) of a tile.
  template <class tile> __device__ void write(tile& to, int first, real const (&scale)[2]) {
    for_each([&](real x, int lower, int column) {
      using element = typename tile::element;
      to.at(first + row(lower), column / tile::in_unit)[column % tile::in_unit] = element(x * scale[lower]);
    });
  }
};

/// Reduces one value per lane over the four lanes that hold a row of a strip. All lanes of the warp must take part.
template <class real, class function> __device__ real over_row(real x, function const& combine) {
  x = combine(x, __shfl_xor_sync(ptx::twin::all_lanes, x, 1));
  return combine(x, __shfl_xor_sync(ptx::twin::all_lanes, x, 2));
}

} // namespace constrain
