#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The constant options of a node: what its op needs besides the operands (heads, epsilon, ...). Each op documents
/// which entry holds what.
struct attributes {
  std::int64_t integer[4]{}; // integer options, such as heads; 0 if unused
  double real[2]{};          // floating-point options, such as epsilon; 0 if unused

  friend constexpr bool operator==(attributes const&, attributes const&) = default;
};

} // namespace constrain
