#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The options of a node in the form in which programs and plans store them, the same type for every op. `pack` and
/// `unpack` (options.hpp) convert an op's `options` to it and back.
struct attributes {
  static constexpr int capacity = 6; // numbers

  std::int64_t number[capacity]{}; // the fields in order; a floating-point field as the bits of a double

  friend constexpr bool operator==(attributes const&, attributes const&) = default;
};

} // namespace constrain
