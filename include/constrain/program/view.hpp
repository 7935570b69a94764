#pragma once

#include "constrain/program/ref.hpp"
#include "constrain/program/shape.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A value without bytes of its own: a slice of another value, of the same type and with the same number of dimensions.
/// The pass `slice_views` makes views of the results of op::slice and of the operands of op::concatenate.
struct view {
  ref of;                 // the sliced value; empty: the value is no view
  int dimension = 0;      // that is sliced
  std::int64_t begin = 0; // index of the slice's first element in this dimension

  /// Whether the value is a view.
  constexpr explicit operator bool() const { return static_cast<bool>(of); }
};

} // namespace constrain
