#pragma once

#include "constrain/base/printable.hpp"

#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE std::string printable(std::string text, bool several_lines) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const c = static_cast<unsigned char>(text[i]);
    // The C1 controls, U+0080 to U+009F, are the byte 0xc2 followed by 0x80 to 0x9f in UTF-8.
    bool const c1_control =
        c == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    if (c1_control) ++i;
    bool const control = c1_control || c < 0x20 || c == 0x7f;
    text[end++] = control && !(several_lines && c == '\n') ? '?' : static_cast<char>(c);
  }
  text.resize(end);
  return text;
}

} // namespace constrain
