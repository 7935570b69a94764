#pragma once

#include "constrain/device/cuda/context.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The operands of several merged calls to one kernel (kernel_needs.hpp), passed by value as a kernel argument (a
/// multi-tensor launch). `entry`: the operands of one call.
template <class entry> struct multi_tensor {
  /// The maximum number of calls per launch: `kernel_needs::merged` of the kernel. 16 bytes hold `count` and padding.
  static constexpr int capacity = static_cast<int>((cuda_context::multi_tensor_bytes - 16) / sizeof(entry));

  entry entries[capacity]; // the first `count` are in use
  int count;               // number of merged calls so far

  /// Adds the operands of one call after the operands of the calls merged before it.
  void add(call const& c, entry const& e) {
    entries[c.merged_before] = e;
    count = c.merged_before + 1;
  }
  /// Gives each entry as many consecutive blocks as `blocks_of(entry)` returns, and returns the total number of blocks.
  /// The entries must have a member `first_block`.
  template <class function> unsigned place_blocks(function const& blocks_of) {
    unsigned blocks = 0;
    for (int i = 0; i < count; ++i) {
      entries[i].first_block = blocks;
      blocks += static_cast<unsigned>(blocks_of(entries[i]));
    }
    return blocks;
  }
  /// The entry to which `place_blocks` has given the block `block`.
  __device__ entry const& entry_of_block(unsigned block) const {
    int i = 0;
    while (i + 1 < count && entries[i + 1].first_block <= block) ++i;
    return entries[i];
  }
};

} // namespace constrain
