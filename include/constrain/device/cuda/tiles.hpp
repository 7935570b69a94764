#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

/// Index computations of CUDA kernels as plain functions, so that they can be tested on the host.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Number of blocks of `threads` threads for `count` elements, at most 8192; 0 for no elements. With this maximum, each
/// thread may have to handle several elements.
constexpr unsigned blocks_for(std::int64_t count, int threads) {
  constexpr std::int64_t max_blocks = 8192;
  auto const blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

/// First element of part `index` if `count` elements are split into `parts` nearly equal parts; `count` if `index` is
/// `parts`.
CT_HOST_DEVICE constexpr std::int64_t part_begin(std::int64_t count, std::int64_t parts, std::int64_t index) {
  return count * index / parts;
}

/// Number of parts of a sum over rows. It depends only on the shape, so that the result is reproducible.
constexpr std::int64_t row_parts(std::int64_t rows) { return rows < 64 ? 1 : rows < 64 * 256 ? rows / 64 : 256; }

/// The layout of many row-major matrices in one tensor, with two strides: sets of `inner` matrices. In attention,
/// matrix i is head i % `inner` of sequence i / `inner`. For keys and values, `group` consecutive indices, one per
/// query head, refer to one matrix.
struct matrix_batch {
  std::int64_t leading = 0;      // leading dimension: elements from one stored row to the next
  bool transposed = false;       // whether the matrices are stored transposed
  std::int64_t inner = 1;        // number of matrices in a set
  std::int64_t inner_stride = 0; // elements from one matrix of a set to the next
  std::int64_t outer_stride = 0; // elements from one set to the next
  std::int64_t group = 1;        // number of consecutive indices that refer to the same matrix

  /// Offset in the tensor, in elements, of the matrix that `index` refers to.
  CT_HOST_DEVICE constexpr std::int64_t begin(std::int64_t index) const {
    auto const matrix = index / group;
    return matrix / inner * outer_stride + matrix % inner * inner_stride;
  }
  /// Offset in a matrix, in elements, of the element at `row` and `column`.
  CT_HOST_DEVICE constexpr std::int64_t at(std::int64_t row, std::int64_t column) const {
    return transposed ? column * leading + row : row * leading + column;
  }
};

} // namespace constrain
