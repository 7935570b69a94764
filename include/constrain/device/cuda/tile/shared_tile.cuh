#pragma once

#include "constrain/device/cuda/ptx.cuh"
#include "constrain/device/cuda/tile/swizzle.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A part of a row-major matrix in device memory.
template <class T> struct matrix_window {
  T* data = nullptr;       // the first element of the part
  std::int64_t stride = 0; // elements from one row of the matrix to the next
  int rows = 0;            // rows of the part that are in the matrix
  int columns = 0;         // columns of the part that are in the matrix
  bool aligned = false;    // whether each row of the part begins at a multiple of 16 bytes, and ends at one
};

/// A tile [rows, columns] of a matrix in shared memory, in 16-byte units with swizzled places. Declare it `__shared__`.
template <class element_, int rows_, int columns_> struct shared_tile {
  using element = element_;
  static constexpr int rows = rows_, columns = columns_;
  static constexpr int in_unit = 16 / static_cast<int>(sizeof(element)); // elements per unit
  static constexpr int units = columns / in_unit;                        // units per row

  alignas(16) std::byte bytes[rows * columns * static_cast<int>(sizeof(element))];

  /// The first element of unit `unit` of row `row`.
  __device__ element* at(int row, int unit) {
    return reinterpret_cast<element*>(bytes) + row * columns + swizzled<units>(row, unit) * in_unit;
  }
  __device__ element const* at(int row, int unit) const { return const_cast<shared_tile*>(this)->at(row, unit); }
};

/// Begins to load a tile. `threads`: number of threads of the block, which call this function together. Elements
/// outside the matrix become 0. The tile is complete after `ptx::commit_copies`, `ptx::wait_for_copies` and a barrier.
template <int threads, class tile>
__device__ void begin_load(tile& to, matrix_window<typename tile::element const> const& from) {
  for (int i = static_cast<int>(threadIdx.x); i < tile::rows * tile::units; i += threads) {
    int const row = i / tile::units, unit = i % tile::units;
    int const left = row < from.rows ? from.columns - unit * tile::in_unit : 0;
    int const valid = left < 0 ? 0 : left < tile::in_unit ? left : tile::in_unit;
    auto const* const source = valid == 0 ? from.data : from.data + row * from.stride + unit * tile::in_unit;
    auto* const place = to.at(row, unit);
    if (from.aligned) ptx::copy_async(place, source, valid * static_cast<int>(sizeof(typename tile::element)));
    else
      for (int j = 0; j < tile::in_unit; ++j) place[j] = j < valid ? source[j] : typename tile::element(0.0f);
  }
}

/// Stores rows [first, first + 16) of a tile to the same rows of a matrix, except elements outside the matrix. The
/// lanes of a warp call this function together, after `__syncwarp`.
template <class tile>
__device__ void store_rows(tile const& from, int first, matrix_window<typename tile::element> const& to) {
  for (int i = static_cast<int>(threadIdx.x % 32); i < 16 * tile::units; i += 32) {
    int const row = first + i / tile::units, unit = i % tile::units;
    if (row >= to.rows) continue;
    int const left = to.columns - unit * tile::in_unit;
    auto const* const source = from.at(row, unit);
    auto* const place = to.data + row * to.stride + unit * tile::in_unit;
    if (!to.aligned)
      for (int j = 0; j < tile::in_unit && j < left; ++j) place[j] = source[j];
    else if (left > 0) *reinterpret_cast<uint4*>(place) = *reinterpret_cast<uint4 const*>(source);
  }
}

} // namespace constrain
