#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

#include <cstdint>

/// Where threads and blocks are in the tensors: plain functions, tested on the host over odd sizes.
namespace constrain::inline CONSTRAIN_VARIANT {

/// Blocks of `threads` that cover `count` elements, each thread one or, where there are very many, several.
constexpr unsigned blocks_for(std::int64_t count, int threads) {
  constexpr std::int64_t most = 8192;
  auto const blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

/// The beginning of part `index` of `count` elements cut into `parts`; part `parts` begins at the end.
CT_HOST_DEVICE constexpr std::int64_t part_begin(std::int64_t count, std::int64_t parts, std::int64_t index) {
  return count * index / parts;
}

/// Into how many parts the rows of a sum over rows are cut: fixed by the shape alone, so that the sum is.
constexpr std::int64_t row_parts(std::int64_t rows) { return rows < 64 ? 1 : rows < 64 * 32 ? rows / 64 : 32; }

/// A row-major matrix, of which many lie in one tensor: batch `index` is head index % inner of sequence index / inner.
struct matrix_batch {
  std::int64_t leading = 0; // elements from one row, as stored, to the next
  bool transposed = false;
  std::int64_t inner = 1; // matrices that lie `inner_stride` apart
  std::int64_t inner_stride = 0;
  std::int64_t outer_stride = 0; // between groups of `inner`

  /// Where matrix `index` begins, in elements.
  CT_HOST_DEVICE constexpr std::int64_t begin(std::int64_t index) const {
    return index / inner * outer_stride + index % inner * inner_stride;
  }
  /// Where element (row, column) of a matrix lies behind its first one.
  CT_HOST_DEVICE constexpr std::int64_t at(std::int64_t row, std::int64_t column) const {
    return transposed ? column * leading + row : row * leading + column;
  }
};

/// How many tokens the token `row` sees.
CT_HOST_DEVICE constexpr std::int64_t tokens_seen(std::int64_t row, std::int64_t tokens, bool causal) {
  return causal ? row + 1 : tokens;
}

} // namespace constrain
