#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <string_view>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The offset of the first ill-formed UTF-8 sequence in `text` (RFC 3629: surrogates and overlong forms are
/// ill-formed), or `text.size()` if there is none.
constexpr std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    auto const lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead < 0xc2 || lead >= 0xf5) return i;
    std::size_t const length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (text.size() - i < length) return i;
    for (std::size_t k = 1; k < length; ++k) {
      auto const byte = static_cast<unsigned char>(text[i + k]);
      // The check of the lead byte excludes some overlong forms and code points beyond U+10FFFF. Limits on the second
      // byte exclude the others, and surrogates.
      unsigned const low = k > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
      unsigned const high = k > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
      if (byte < low || byte > high) return i;
    }
    i += length;
  }
  return i;
}

/// Whether `text` is well-formed UTF-8.
constexpr bool is_utf8(std::string_view text) { return find_invalid_utf8(text) == text.size(); }

} // namespace constrain
