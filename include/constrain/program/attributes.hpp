#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The compile-time options (heads, epsilon, ...) of one call to an op, in the form that `pack` returns (options.hpp).
struct attributes {
  static constexpr int capacity = 6; // maximum number of elements

  std::int64_t number[capacity]{}; // the options in order; floating-point numbers as the bits of a double

  friend constexpr bool operator==(attributes const&, attributes const&) = default;
};

} // namespace constrain
