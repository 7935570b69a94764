#pragma once

#include "constrain/base/variant.hpp"
#include "constrain/device/cpu/gemm_pack.hpp"
#include "constrain/device/cpu/vector.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

/// The rows of B that a micro-kernel reads, packed or in place: `stride` elements apart.
template <class packed> struct gemm_packed_rows {
  packed const* row;
  std::int64_t stride;

  /// Loads the two vectors of the next row.
  template <class vector> [[gnu::always_inline]] void load(vector& left, vector& right) {
    using unaligned = typename vector_of<packed>::unaligned;
    left = *reinterpret_cast<unaligned const*>(row);
    right = *reinterpret_cast<unaligned const*>(row + vector_of<packed>::lanes);
    row += stride;
  }
};

/// The rows of B that a micro-kernel packs while it computes, since packing them before would take time of its own. Row
/// p begins at row[p * stride].
template <class packed, class stored> struct gemm_unpacked_rows {
  stored const* row;
  std::int64_t stride;
  packed* packed_row;

  /// Loads the two vectors of the next row of packed elements, and stores them in the panel.
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
};

} // namespace constrain::detail
