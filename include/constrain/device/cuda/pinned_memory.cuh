#pragma once

#include "constrain/device/cuda/check.cuh"

#include <cstddef>
#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Pinned (page-locked) host memory: asynchronous copies between it and a device run while the host continues.
class pinned_memory {
public:
  /// `size`: bytes, at least 1. Throws `error` if the host lacks the memory, or if CUDA fails.
  explicit pinned_memory(std::int64_t size) {
    auto const status = cudaMallocHost(reinterpret_cast<void**>(&memory_), static_cast<std::size_t>(size));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError(); // clears the error, so that the program's own error checks do not report it
      throw error(
          {"CUDA could not allocate ", size,
           " bytes of pinned host memory for a step's batch and results; free host memory, or use a smaller batch"});
    }
    cuda_check(status, "allocate pinned memory");
  }
  ~pinned_memory() { cudaFreeHost(memory_); }
  pinned_memory(pinned_memory const&) = delete;
  pinned_memory& operator=(pinned_memory const&) = delete;
  /// The first byte, aligned to at least 256 bytes.
  std::byte* data() const { return memory_; }

private:
  std::byte* memory_ = nullptr;
};

} // namespace constrain
