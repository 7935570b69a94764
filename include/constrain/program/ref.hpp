#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Which instance of a carried value (the x of a repeat over n trips has n + 1): the one this trip reads, the one it
/// hands to the next trip, the one before the loop, the one after. Other values are always `here`.
enum class at : std::uint8_t { here, next, first, last };

constexpr char const* name_of(at where) {
  constexpr char const* names[] = {"here", "next", "first", "last"};
  return names[static_cast<int>(where)];
}

/// A value and where.
struct ref {
  int value = -1;
  at where = at::here;

  constexpr explicit operator bool() const { return value >= 0; }
  friend constexpr bool operator==(ref const& a, ref const& b) { return a.value == b.value && a.where == b.where; }
};

} // namespace constrain
