// The places of 16-byte units in the rows of a tile in shared memory: no bank conflicts, and no unit twice.

#include <constrain/device/cuda/shared_banks.hpp>
#include <constrain/device/cuda/tile/swizzle.hpp>
#include <doctest/doctest.h>

#include <cstdint>

namespace ct = constrain;

namespace {

template <int units> constexpr std::int64_t offset(int row, int unit) {
  return (static_cast<std::int64_t>(row) * units + ct::swizzled<units>(row, unit)) * 16;
}

/// ldmatrix: lane i reads a unit of row i % 16, or of row i % 8 and another row eight below.
template <int units> constexpr int accesses_of_matrices(int first_row, int first_unit) {
  std::int64_t offsets[32]{};
  for (int i = 0; i < 32; ++i) offsets[i] = offset<units>(first_row + i % 16, first_unit + i / 16);
  return ct::shared_accesses(offsets);
}
/// A copy of a tile: lane i writes unit i % units of row i / units.
template <int units> constexpr int accesses_of_copies(int first_row) {
  std::int64_t offsets[32]{};
  for (int i = 0; i < 32; ++i) offsets[i] = offset<units>(first_row + i / units, i % units);
  return ct::shared_accesses(offsets);
}

template <int units> constexpr bool is_free_of_conflicts() {
  for (int row = 0; row < 64; row += 16)
    for (int unit = 0; unit + 1 < units; unit += 2)
      if (accesses_of_matrices<units>(row, unit) != 4) return false;
  for (int row = 0; row < 64; ++row)
    if (accesses_of_copies<units>(row) != 4) return false;
  return true;
}
static_assert(is_free_of_conflicts<4>() && is_free_of_conflicts<8>() && is_free_of_conflicts<16>());

template <int units> constexpr bool is_a_permutation() {
  for (int row = 0; row < 16; ++row) {
    unsigned seen = 0;
    for (int unit = 0; unit < units; ++unit) seen |= 1u << ct::swizzled<units>(row, unit);
    if (seen != (1u << units) - 1) return false;
  }
  return true;
}
static_assert(is_a_permutation<4>() && is_a_permutation<8>() && is_a_permutation<16>());

} // namespace

TEST_CASE("rows that are eight apart have the same places, in tiles of every width") {
  for (int row = 0; row < 64; ++row)
    for (int unit = 0; unit < 4; ++unit) {
      CHECK(ct::swizzled<4>(row, unit) == ct::swizzled<4>(row + 8, unit));
      CHECK(ct::swizzled<8>(row, unit) == ct::swizzled<8>(row + 8, unit));
      CHECK(ct::swizzled<16>(row, unit) == ct::swizzled<16>(row + 8, unit));
    }
}
