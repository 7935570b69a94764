#pragma once

#include "block.hpp"

namespace on_host {

/// The contract of CUB's block collectives: the block has the threads they were written for, and their storage is
/// shared memory of the block.
template <int threads, class storage> void check_collective(storage const& s) {
  bookkeeping const unseen;
  if (blockDim.x * blockDim.y * blockDim.z != threads)
    violated("cub", text("a collective of ", threads, " threads in a block of ", blockDim.x),
             "the numbers are the same");
  if (!block::current().in_shared_memory(s))
    violated("cub", "the storage of a collective is not in shared memory", "all threads of the block share it");
}

} // namespace on_host
