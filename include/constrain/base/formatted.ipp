#pragma once

#include "constrain/base/formatted.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::string formatted_list(char const* format, std::va_list values) {
  std::va_list copy;
  va_copy(copy, values);
  char line[512];
  auto const length = static_cast<std::size_t>(std::max(std::vsnprintf(line, sizeof line, format, values), 0));
  std::string text(line, std::min(length, sizeof line - 1));
  if (length >= sizeof line) {
    text.resize(length + 1);
    std::vsnprintf(text.data(), text.size(), format, copy);
    text.pop_back();
  }
  va_end(copy);
  return text;
}

[[gnu::cold]] CONSTRAIN_INLINE std::string formatted(char const* format, ...) {
  std::va_list values;
  va_start(values, format);
  auto text = formatted_list(format, values);
  va_end(values);
  return text;
}

} // namespace constrain::detail
