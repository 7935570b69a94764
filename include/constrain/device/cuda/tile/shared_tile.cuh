#pragma once

#include "constrain/device/cuda/packs.cuh"
#include "constrain/device/cuda/ptx.cuh"
#include "constrain/device/cuda/tile/swizzle.hpp"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A submatrix of a row-major matrix in device memory.
template <class T> struct matrix_view {
  T* data = nullptr;       // the first element of the submatrix
  std::int64_t stride = 0; // elements from one row of the matrix to the next
  int rows = 0;            // rows of the submatrix that are in the matrix; 0 or less: none
  int columns = 0;         // columns of the submatrix that are in the matrix; 0 or less: none
  bool aligned = false;    // whether each row of the submatrix begins and ends at a multiple of 16 bytes
};

/// A tile [rows, columns] of a matrix, stored in shared memory in swizzled 16-byte units. Declare it `__shared__`.
template <class element_, int rows_, int columns_> struct shared_tile {
  using element = element_;
  static constexpr int rows = rows_, columns = columns_;
  static constexpr int unit_elements = 16 / static_cast<int>(sizeof(element)); // elements per unit
  static constexpr int units = columns / unit_elements;                        // units per row

  static constexpr int row_bytes = columns * static_cast<int>(sizeof(element));

  /// The elements, as bytes: a `__shared__` variable cannot have initializers, and float16 and bfloat16 have them. Rows
  /// are aligned to their size, so that `moved` can change the bits of an address that select a unit without changing
  /// the other bits.
  alignas(row_bytes) std::byte bytes[rows * row_bytes];

  /// The first element of unit `unit` of row `row`.
  __device__ element* at(int row, int unit) { return reinterpret_cast<element*>(bytes + offset(row, unit)); }
  __device__ element const* at(int row, int unit) const { return const_cast<shared_tile*>(this)->at(row, unit); }

  /// The offset of unit `unit` of row `row`, in bytes.
  __device__ static int offset(int row, int unit) { return row * row_bytes + swizzled<units>(row, unit) * 16; }
  /// The address or offset of unit `unit` + `more_units` of row `row` + `more_rows`. `from`: the address or offset of
  /// unit `unit` of row `row`. `more_rows` must be a multiple of 8, so that both rows have the same permutation. `unit`
  /// and `more_units` must have no bit in common.
  template <class integer> __device__ static integer moved(integer from, int more_rows, int more_units) {
    return (from ^ static_cast<integer>(more_units * 16)) + static_cast<integer>(more_rows * row_bytes);
  }
  /// Rows [first, first + count), as a tile. `first`: a multiple of 8.
  template <int count> __device__ auto& subtile(int first) {
    return reinterpret_cast<shared_tile<element, count, columns>&>(bytes[first * row_bytes]);
  }
};

/// Begins to load the submatrix `from` into the tile `to`. `threads`: number of threads of the block, which call this
/// function together. Elements outside the matrix become 0. The tile is complete after `ptx::commit_copies`,
/// `ptx::wait_for_copies` and a barrier.
template <int threads, class tile>
__device__ void begin_load(tile& to, matrix_view<typename tile::element const> const& from) {
  using element = typename tile::element;
  // A thread loads unit `unit` of the rows `first`, `first` + `row_stride` and so on, which have the same permutation
  // of units.
  constexpr int row_stride = threads / tile::units;
  static_assert(threads % tile::units == 0 && tile::rows % row_stride == 0 && row_stride % 8 == 0);
  int const unit = static_cast<int>(threadIdx.x % tile::units), first = static_cast<int>(threadIdx.x / tile::units);
  int const remaining = from.columns - unit * tile::unit_elements;
  int const valid = remaining < 0                     ? 0
                    : remaining < tile::unit_elements ? remaining
                                                      : tile::unit_elements; // columns of the unit in the matrix
  auto const* source = from.data + first * from.stride + unit * tile::unit_elements;
  auto* destination = to.at(first, unit);
  if (from.aligned) {
    CT_KEEP_LOOP
    for (int row = 0; row < tile::rows; row += row_stride) {
      bool const in_matrix = valid != 0 && first + row < from.rows;
      ptx::copy_async(destination + row * tile::columns, in_matrix ? source : from.data, in_matrix ? 16 : 0);
      source += row_stride * from.stride;
    }
  } else {
    CT_KEEP_LOOP
    for (int row = 0; row < tile::rows; row += row_stride) {
      CT_KEEP_LOOP
      for (int j = 0; j < tile::unit_elements; ++j)
        destination[row * tile::columns + j] = j < valid && first + row < from.rows ? source[j] : element(0.0f);
      source += row_stride * from.stride;
    }
  }
}

/// Begins to load tiles of one matrix. `threads`: as in `begin_load`. For a tile that is entirely inside an aligned
/// matrix (most tiles are), a thread needs few instructions besides its copies.
template <int threads, class tile> class tile_source {
  using element = typename tile::element;
  static constexpr int row_stride = threads / tile::units;
  static_assert(threads % tile::units == 0 && tile::rows % row_stride == 0 && row_stride % 8 == 0);

public:
  /// `matrix`: the matrix, or the submatrix, whose tiles are loaded. Its stride must be less than 2^31 bytes.
  __device__ explicit tile_source(matrix_view<element const> const& matrix)
      : matrix_(matrix), row_bytes_(static_cast<int>(matrix.stride) * static_cast<int>(sizeof(element))) {}

  /// Begins to load into `to` the tile that begins at row `row` and column `column`; see `begin_load`. `data_offset`:
  /// elements from `matrix` to another matrix with the same extents and stride, whose tile is loaded instead. If the
  /// matrix is aligned, `column` and `data_offset` must be multiples of `tile::unit_elements`.
  __device__ void begin(tile& to, int row, int column, int data_offset = 0) const {
    if (matrix_.aligned && row + tile::rows <= matrix_.rows && column + tile::columns <= matrix_.columns) {
      auto const* from =
          reinterpret_cast<std::byte const*>(matrix_.data + data_offset + column + unit() * tile::unit_elements) +
          static_cast<std::int64_t>(row + first()) * row_bytes_;
      auto* const destination = to.at(first(), unit());
      CT_UNROLL
      for (int i = 0; i < tile::rows / row_stride; ++i)
        ptx::copy_async(destination + i * row_stride * tile::columns,
                        from + static_cast<std::int64_t>(i * row_stride) * row_bytes_);
    } else
      begin_load<threads>(to, {matrix_.data + row * matrix_.stride + data_offset + column, matrix_.stride,
                               matrix_.rows - row, matrix_.columns - column, matrix_.aligned});
  }

private:
  /// The first row, and the unit in each row, that this thread copies.
  __device__ static int first() { return static_cast<int>(threadIdx.x / tile::units); }
  __device__ static int unit() { return static_cast<int>(threadIdx.x % tile::units); }

  matrix_view<element const> matrix_;
  int row_bytes_;
};

/// Stores rows [first, first + count) of a tile to the same rows of a matrix, except elements outside the matrix. The
/// lanes of a warp call this function together, after `__syncwarp`.
template <int count, class tile>
__device__ void store_rows(tile const& from, int first, matrix_view<typename tile::element> const& to) {
  for (int i = static_cast<int>(threadIdx.x % 32); i < count * tile::units; i += 32) {
    int const row = first + i / tile::units, unit = i % tile::units;
    if (row >= to.rows) continue;
    int const remaining = to.columns - unit * tile::unit_elements;
    auto const* const source = from.at(row, unit);
    auto* const destination = to.data + row * to.stride + unit * tile::unit_elements;
    if (!to.aligned)
      for (int j = 0; j < tile::unit_elements && j < remaining; ++j) destination[j] = source[j];
    else if (remaining > 0) detail::copy_words<16>(source, destination);
  }
}

} // namespace constrain
