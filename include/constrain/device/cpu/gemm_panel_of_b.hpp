#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/cpu/gemm_pack.hpp"
#include "constrain/device/cpu/gemm_prefetch.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// A panel of the operand that the micro-kernel reads by rows (B, or A in `gemm_few_rows`): rows of packed elements,
/// `stride` elements apart. The rows are in a packing buffer or, if the operand has the element type `packed`, in the
/// operand itself.
template <class packed> struct gemm_packed_panel {
  packed const* row; // the next row
  std::int64_t stride;

  /// Loads the two vectors of the next row.
  template <class vector> [[gnu::always_inline]] void load(vector& left, vector& right) {
    using unaligned = typename vector_of<packed>::unaligned;
    left = *reinterpret_cast<unaligned const*>(row);
    right = *reinterpret_cast<unaligned const*>(row + vector_of<packed>::lanes);
    row += stride;
  }
  /// Prefetches the vectors that `load` would load after `count` more calls. These may be past the panel's end, because
  /// a prefetch never faults.
  [[gnu::always_inline]] void fetch(std::int64_t count) const { gemm_fetch(row + count * stride, 2 * vector_bytes); }
};

/// A panel of B that a micro-kernel packs while it multiplies, instead of in a separate pass. Rows of B are `stride`
/// elements apart. B is not transposed, and the panel is complete: two vectors wide and, for pairs, with an even number
/// of rows.
template <class packed, class stored> struct gemm_unpacked_panel {
  stored const* row; // the next row of B; for pairs, the first of the next two
  std::int64_t stride;
  packed* packed_row; // where the next row of packed elements is stored

  /// Loads the two vectors of the next row of packed elements, and stores them at `packed_row`.
  template <class vector> [[gnu::always_inline]] void load(vector& left, vector& right) {
    using unaligned = typename vector_of<packed>::unaligned;
    constexpr int lanes = vector_of<packed>::lanes;
    left = load_across_k<packed>(row, stride);
    right = load_across_k<packed>(row + lanes, stride);
    row += elements_of<packed> * stride;
    *reinterpret_cast<unaligned*>(packed_row) = left;
    *reinterpret_cast<unaligned*>(packed_row + lanes) = right;
    packed_row += 2 * lanes;
  }
  /// Prefetches the elements that `load` would load after `count` more calls. These may be past the panel's end.
  [[gnu::always_inline]] void fetch(std::int64_t count) const {
    constexpr auto elements = elements_of<packed>;
    for (std::int64_t i = 0; i < elements; ++i)
      gemm_fetch(row + (count * elements + i) * stride, 2 * vector_of<packed>::lanes * sizeof(stored));
  }
};

} // namespace constrain::detail
