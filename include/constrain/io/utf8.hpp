#pragma once

#include "constrain/base/utf8.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT::io {

using constrain::find_invalid_utf8;

/// Returns the code point at byte `offset` of well-formed UTF-8, and advances `offset` past it. `offset` must be where
/// a code point begins.
constexpr char32_t get_utf8(std::string_view text, std::size_t& offset) {
  auto const lead = static_cast<unsigned char>(text[offset++]);
  if (lead < 0x80) return lead;
  int const tail = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  char32_t code = lead & (0x3fu >> tail);
  for (int k = 0; k < tail; ++k) code = code << 6 | (static_cast<unsigned char>(text[offset++]) & 0x3fu);
  return code;
}

/// Writes a code point (at most U+10FFFF, no surrogate) as UTF-8 to `out`, at most 4 bytes. Returns the end of these
/// bytes.
constexpr char* put_utf8(char* out, char32_t code) {
  if (code < 0x80) {
    *out++ = static_cast<char>(code);
    return out;
  }
  int const tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  unsigned const lead = tail == 1 ? 0xc0 : tail == 2 ? 0xe0 : 0xf0;
  *out++ = static_cast<char>(lead | (code >> (6 * tail)));
  for (int k = tail - 1; k >= 0; --k) *out++ = static_cast<char>(0x80 | ((code >> (6 * k)) & 0x3f));
  return out;
}

} // namespace constrain::io
