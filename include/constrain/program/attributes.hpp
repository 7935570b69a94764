#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The compile-time options (heads, epsilon, ...) of one call to an op, in the form that `pack` returns (options.hpp).
struct attributes {
  static constexpr int capacity = 6; // maximum number of elements

  // the options in order: a floating-point option as the bits of a double, a shape as four extents (`option_packer`),
  // any other option as an integer; unused elements are 0
  std::int64_t number[capacity]{};

  friend constexpr bool operator==(attributes const&, attributes const&) = default;
};

} // namespace constrain
