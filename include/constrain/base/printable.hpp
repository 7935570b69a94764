#pragma once

#include "constrain/base/variant.hpp"

#include <cstddef>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Text that is safe to print: control characters become '?', since names in files or of users could end the line or
/// command a terminal with them. That includes U+0080 to U+009F. `several_lines` keeps line ends.
[[gnu::noinline]] inline std::string printable(std::string text, bool several_lines = false) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const c = static_cast<unsigned char>(text[i]);
    bool const second_block =
        c == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    if (second_block) ++i;
    bool const control = second_block || c < 0x20 || c == 0x7f;
    text[end++] = control && !(several_lines && c == '\n') ? '?' : static_cast<char>(c);
  }
  text.resize(end);
  return text;
}

} // namespace constrain
