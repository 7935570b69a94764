#pragma once

#include "constrain/base/variant.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace constrain::inline CONSTRAIN_VARIANT::io {

/// CRC-32C (Castagnoli, RFC 3720), computed eight bytes at a time (slicing-by-8: Kounavis and Berry, 2005). The
/// checksum detects every change confined to 32 consecutive bits, and misses about one in 2^32 other changes.
class crc32c {
public:
  /// Adds bytes to the checksum: several calls give the same value as one call with all bytes. Returns this object.
  crc32c& update(std::span<std::byte const> bytes);

  /// The checksum of all bytes so far; 0 if there are none.
  std::uint32_t value() const { return ~state_; }

private:
  std::uint32_t state_ = 0xffffffff;

  // Entry [k][b]: the remainder of byte b followed by k zero bytes. `update` computes the tables once, at run time,
  // because a constexpr table would cost compile time in every translation unit.
  static std::array<std::array<std::uint32_t, 256>, 8> tables();
};

} // namespace constrain::io

#if CONSTRAIN_DEFINITIONS
#include "constrain/io/crc32c.ipp"
#endif
