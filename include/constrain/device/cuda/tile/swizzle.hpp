#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/base/variant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The position, in row `row` of a tile in shared memory, of 16-byte unit `unit`. `units`: units per row, a power of
/// two that is at least 4. The units of each row are permuted (swizzled), so that eight lanes that access the same unit
/// of eight consecutive rows cause no bank conflict, and neither do eight lanes that access eight consecutive units of
/// a row or, with four units per row, all units of two consecutive rows.
template <int units> CT_HOST_DEVICE constexpr int swizzled(int row, int unit) {
  static_assert(units >= 4 && (units & (units - 1)) == 0);
  constexpr int rows_across_banks = units < 8 ? 8 / units : 1; // the fewest consecutive rows that cover all banks
  constexpr int permuted = units < 8 ? units : 8;
  return unit ^ (row / rows_across_banks % permuted);
}

} // namespace constrain
