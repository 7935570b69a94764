#pragma once

#include "constrain/device/cuda/context.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The operands of several calls of one kernel, passed by value as the argument of a single launch (a multi-tensor
/// launch). `entry`: the operands of one call.
template <class entry> struct multi_tensor {
  /// The most calls per launch.
  static constexpr int capacity = static_cast<int>((cuda_context::multi_tensor_bytes - 16) / sizeof(entry));

  entry entries[capacity];
  int count;

  /// Adds the operands of one call; not if `full()`.
  void add(entry const& e) { entries[count++] = e; }
  bool full() const { return count == capacity; }
};

} // namespace constrain
