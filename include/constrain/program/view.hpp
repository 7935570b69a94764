#pragma once

#include "constrain/program/ref.hpp"
#include "constrain/program/shape.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A value that uses the buffer of another value of the same type: a slice of it, or all of it in a different shape.
/// Where possible, the pass `slice_views` turns the result of an op::slice or op::reshape into a view of its input, and
/// the operands of an op::concatenate, op::stack or op::reshape into views of its result.
struct view {
  ref of;                 // the value that this one is a view of; empty: it is not a view
  int dimension = 0;      // the sliced dimension
  std::int64_t begin = 0; // index of the slice's first element in this dimension
  int axis = -1;          // of the loop whose iterations move the slice; -1: none
  std::int64_t step = 0;  // indices by which one iteration moves the slice

  /// Whether the value is a view.
  constexpr explicit operator bool() const { return static_cast<bool>(of); }
};

} // namespace constrain
