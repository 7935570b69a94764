#pragma once

#include "constrain/io/crc32c.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::io {

CONSTRAIN_INLINE crc32c& crc32c::update(std::span<std::byte const> bytes) {
  static auto const table = tables();
  auto const word = [&](std::size_t i) {
    return std::uint32_t(bytes[i]) | std::uint32_t(bytes[i + 1]) << 8 | std::uint32_t(bytes[i + 2]) << 16 |
           std::uint32_t(bytes[i + 3]) << 24;
  };
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    auto const low = state_ ^ word(i), high = word(i + 4);
    state_ = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
             table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
  }
  for (; i < bytes.size(); ++i) state_ = state_ >> 8 ^ table[0][(state_ ^ std::uint32_t(bytes[i])) & 255];
  return *this;
}

CONSTRAIN_INLINE std::array<std::array<std::uint32_t, 256>, 8> crc32c::tables() {
  // 0x82f63b78: the Castagnoli polynomial, bit-reflected.
  std::array<std::array<std::uint32_t, 256>, 8> entries{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? 0x82f63b78u : 0u);
    entries[0][i] = remainder;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t i = 0; i < 256; ++i) entries[k][i] = entries[k - 1][i] >> 8 ^ entries[0][entries[k - 1][i] & 255];
  return entries;
}

} // namespace constrain::io
