#pragma once

#include "constrain/base/variant.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An instance of a loop-carried value. The value x that ct::repeat passes through n iterations has n + 1 instances,
/// from `initial` before the loop to `final` after it. An iteration reads `current` and writes `next`, which the next
/// iteration reads as its `current`. A reversed loop carries the gradient of x from `final` to `initial`: its
/// iterations read the gradient's `next` and write its `current`. References to values that are not loop-carried use
/// `current`.
enum class at : std::uint8_t { current, next, initial, final };

/// The name of `where` in printed programs.
constexpr char const* name_of(at where) {
  constexpr char const* names[] = {"current", "next", "initial", "final"};
  return names[static_cast<int>(where)];
}

/// A reference to one instance of a value of a program.
struct ref {
  int value = -1;         // index into `program::values`; -1: none
  at where = at::current; // which instance of a loop-carried value

  /// Whether this refers to a value.
  constexpr explicit operator bool() const { return value >= 0; }
  friend constexpr bool operator==(ref const& a, ref const& b) { return a.value == b.value && a.where == b.where; }
};

} // namespace constrain
