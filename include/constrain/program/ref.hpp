#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Which instance of a loop-carried value (the x of a repeat over n iterations has n + 1): the one this iteration
/// reads, the one it hands to the next iteration, the one before the loop, the one after. Other values are always
/// `current`.
enum class at : std::uint8_t { current, next, initial, final };

/// "current", "next", ...
constexpr char const* name_of(at where) {
  constexpr char const* names[] = {"current", "next", "initial", "final"};
  return names[static_cast<int>(where)];
}

/// A value and where.
struct ref {
  int value = -1;
  at where = at::current;

  /// Whether it refers to a value.
  constexpr explicit operator bool() const { return value >= 0; }
  friend constexpr bool operator==(ref const& a, ref const& b) { return a.value == b.value && a.where == b.where; }
};

} // namespace constrain
