#pragma once

#include "constrain/base/number_text.hpp"

#include "constrain/base/concat.hpp"
#include "constrain/base/formatted.hpp"

#include <cstddef>

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE std::string bytes_text(bytes b) {
  if (b >= mebibytes(1)) return formatted("%.1f MiB", b.mebibytes());
  return formatted("%.1f KiB", static_cast<double>(b.count()) / 1024);
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
