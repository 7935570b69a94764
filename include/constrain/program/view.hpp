#pragma once

#include "constrain/program/ref.hpp"
#include "constrain/program/shape.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// How a value uses the buffer of another value of the same type. The value is a slice of the other value, has all
/// elements of the other value in a different shape, or has the first elements of the other value in row-major order.
/// Where possible, the pass `slice_views` turns the result of an op::slice or op::reshape into a view of the input, or
/// the operands of an op::concatenate, op::stack or op::reshape into views of the result. The pass `pad_rows` turns
/// values into slices of a value with longer rows. The pass `partition` can make a rank's shard of a gradient a view of
/// the first elements of the full gradient.
struct view {
  ref of;                            // the viewed value; empty: this value is not a view
  int dimension = 0;                 // the sliced dimension
  std::int64_t begin = 0;            // index of the slice's first element in this dimension
  int axis = -1;                     // axis of the loop whose iterations move the slice; -1: none
  std::int64_t iteration_stride = 0; // indices of this dimension from one iteration of that loop to the next

  /// Whether the value is a view.
  constexpr explicit operator bool() const { return of.value >= 0; }
};

} // namespace constrain
