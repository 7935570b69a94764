#pragma once

#include "constrain/base/host_device.hpp"
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
  /// Gives each entry as many consecutive blocks as `blocks_of(entry)` returns, and returns the number of all blocks.
  /// The entries must have a member `first_block`.
  template <class function> unsigned place_blocks(function const& blocks_of) {
    unsigned blocks = 0;
    for (int i = 0; i < count; ++i) {
      entries[i].first_block = blocks;
      blocks += static_cast<unsigned>(blocks_of(entries[i]));
    }
    return blocks;
  }
  /// The entry that a block belongs to (place_blocks).
  __device__ entry const& entry_of_block(unsigned block) const {
    int i = 0;
    while (i + 1 < count && entries[i + 1].first_block <= block) ++i;
    return entries[i];
  }
};

/// A block's share of a multi-tensor launch: elements [begin, end) of one of the tensors.
struct tensor_chunk {
  int tensor;
  std::int64_t begin, end;
};

/// The number of chunks of at most `elements` elements into which `count` elements are cut. `elements` must be a power
/// of 2.
template <int elements> CT_HOST_DEVICE constexpr std::int64_t chunks_of(std::int64_t count) {
  static_assert(elements > 0 && (elements & (elements - 1)) == 0);
  return (count + elements - 1) / elements;
}

/// The number of blocks for all chunks of all tensors; `entry` has a member `count`, its number of elements.
template <int elements, class entry> unsigned blocks_of_chunks(multi_tensor<entry> const& tensors) {
  std::int64_t blocks = 0;
  for (int i = 0; i < tensors.count; ++i) blocks += chunks_of<elements>(tensors.entries[i].count);
  return static_cast<unsigned>(blocks);
}

/// The chunk of this block, of `blocks_of_chunks<elements>(tensors)` blocks. Small tensors get few blocks, and large ones
/// many.
template <int elements, class entry> __device__ tensor_chunk chunk_of_block(multi_tensor<entry> const& tensors) {
  std::int64_t chunk = blockIdx.x;
  int i = 0;
  CT_KEEP_LOOP
  for (; i + 1 < tensors.count; ++i) {
    auto const chunks = chunks_of<elements>(tensors.entries[i].count);
    if (chunk < chunks) break;
    chunk -= chunks;
  }
  auto const begin = chunk * elements, end = begin + elements;
  return {i, begin, end < tensors.entries[i].count ? end : tensors.entries[i].count};
}

} // namespace constrain
