#pragma once

#include "constrain/base/number_text.hpp"

#include "constrain/base/concat.hpp"

#include <charconv>
#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::string fixed_text(double x, int decimals) {
  char text[328]; // the 309 digits of the largest double, a sign, a point and the decimals
  auto* const begin = static_cast<char*>(text);
  return {begin, std::to_chars(begin, begin + sizeof text, x, std::chars_format::fixed, decimals).ptr};
}

[[gnu::cold]] CONSTRAIN_INLINE std::string bytes_text(bytes b) {
  auto const kibibytes = static_cast<double>(b.count()) / 1024;
  // From 1023.95 on, one decimal would give 1024.0 KiB.
  if (kibibytes >= 1023.95) return fixed_text(b.mebibytes(), 1) + " MiB";
  return fixed_text(kibibytes, 1) + " KiB";
}

[[gnu::cold]] CONSTRAIN_INLINE std::string grouped(std::int64_t n) {
  auto const digits = concat({n});
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    bool const separate = i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0;
    if (separate) text += ',';
    text += digits[i];
  }
  return text;
}

} // namespace constrain::detail
