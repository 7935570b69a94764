#pragma once

#include "constrain/device/cuda/context.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The operands of several merged calls to one kernel (kernel_needs.hpp), passed by value as a kernel argument (a
/// multi-tensor launch). `entry`: the operands of one call.
template <class entry> struct multi_tensor {
  /// The maximum number of calls per launch: `kernel_needs::merged` of the kernel.
  static constexpr int capacity = static_cast<int>((cuda_context::multi_tensor_bytes - 16) / sizeof(entry));

  entry entries[capacity];
  int count;

  /// Adds the operands of one call after the operands of the calls merged before it.
  void add(call const& c, entry const& e) {
    entries[c.merged_before] = e;
    count = c.merged_before + 1;
  }
};

} // namespace constrain
