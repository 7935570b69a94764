#pragma once

#include "constrain/base/convert_reals.hpp"

#include <algorithm>
#include <cstring>

namespace constrain::inline CONSTRAIN_VARIANT {

[[gnu::cold]] CONSTRAIN_INLINE void convert_reals(dtype from_type, std::byte const* from, dtype to_type, std::byte* to,
                                                  std::int64_t count) {
  // A conversion through double needs eight loops for four types, not sixteen.
  constexpr std::int64_t slice = 512;
  double exact[slice];
  for (; count > 0; count -= slice) {
    auto const n = std::min(count, slice);
    visit_real(from_type, [=, &exact]<class stored>(stored x) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(&x, from + i * static_cast<std::int64_t>(sizeof x), sizeof x);
        exact[i] = static_cast<double>(x);
      }
    });
    visit_real(to_type, [=, &exact]<class stored>(stored x) {
      for (std::int64_t i = 0; i < n; ++i) {
        x = static_cast<stored>(static_cast<arithmetic<stored>>(exact[i]));
        std::memcpy(to + i * static_cast<std::int64_t>(sizeof x), &x, sizeof x);
      }
    });
    from += n * size_of(from_type), to += n * size_of(to_type);
  }
}

} // namespace constrain
