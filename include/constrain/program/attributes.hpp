#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What a node knows beyond its operands (heads, epsilon, ...). Each op names its own fields.
struct attributes {
  std::int64_t integer[4]{}; // 0 where the op says nothing
  double real[2]{};          // likewise

  friend constexpr bool operator==(attributes const& a, attributes const& b) {
    for (int i = 0; i < 4; ++i)
      if (a.integer[i] != b.integer[i]) return false;
    return a.real[0] == b.real[0] && a.real[1] == b.real[1];
  }
};

} // namespace constrain
