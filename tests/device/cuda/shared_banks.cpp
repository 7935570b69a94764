// Bank conflicts of shared memory, counted.

#include <constrain/device/cuda/shared_banks.hpp>
#include <doctest/doctest.h>

namespace ct = constrain;

namespace {

/// The accesses of a warp to rows of `row_bytes`: lane i reads 16 bytes of row i % 8, column i / 8, the columns swapped
/// by the row's lowest bits where they are swizzled.
constexpr int accesses(std::int64_t row_bytes, bool swizzled) {
  std::int64_t offsets[32]{};
  for (int i = 0; i < 32; ++i) offsets[i] = i % 8 * row_bytes + 16 * (swizzled ? (i / 8) ^ (i % 8) : i / 8);
  return ct::shared_accesses(offsets);
}
static_assert(accesses(16, false) == 4);
static_assert(accesses(128, false) == 32); // all eight rows begin at bank 0
static_assert(accesses(128, true) == 4);
static_assert(accesses(144, false) == 4); // rows that are padded by 16 bytes
static_assert(accesses(64, false) == 16); // two rows cover all banks

} // namespace

TEST_CASE("lanes that read the same 16 bytes are served together") {
  std::int64_t offsets[32]{};
  CHECK(ct::shared_accesses(offsets) == 4);
  for (int i = 0; i < 32; ++i) offsets[i] = i % 2 * 128;
  CHECK(ct::shared_accesses(offsets) == 8);
  for (int i = 0; i < 32; ++i) offsets[i] = (31 - i) * 16;
  CHECK(ct::shared_accesses(offsets) == 4);
}
