#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The compile-time options of one call of an op, such as heads and epsilon. The op documents which entry holds what:
/// "Attribute 0" is integer[0], "real attribute 0" is real[0].
struct attributes {
  std::int64_t integer[4]{}; // integer options, such as heads; 0 if unused
  double real[2]{};          // floating-point options, such as epsilon; 0 if unused

  friend constexpr bool operator==(attributes const&, attributes const&) = default;
};

} // namespace constrain
