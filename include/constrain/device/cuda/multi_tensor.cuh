#pragma once

#include "constrain/device/cuda/context.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The operands of several calls of one kernel, so that one launch does them all. It travels as the kernel's argument.
template <class entry> struct multi_tensor {
  static constexpr int capacity = static_cast<int>((cuda_context::multi_tensor_bytes - 16) / sizeof(entry));

  entry entries[capacity];
  int count;

  /// Adds a tensor; must not be called when full.
  void add(entry const& e) { entries[count++] = e; }
  bool full() const { return count == capacity; }
};

} // namespace constrain
