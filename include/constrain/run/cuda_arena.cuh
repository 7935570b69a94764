#pragma once

#include "constrain/device/cuda/check.cuh"
#include "constrain/run/arena.hpp"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An arena in a CUDA device's memory. Reads and writes run after all earlier work on the stream; a read returns when
/// its copy is complete. The constructor throws `error` if the memory cannot be allocated.
class cuda_arena final : public arena {
public:
  /// Allocates on the CUDA device that is current in the host thread.
  cuda_arena(bytes size, cudaStream_t stream) : arena(size), stream_(stream) {
    if (cudaMalloc(reinterpret_cast<void**>(&memory_), static_cast<std::size_t>(size.count())) == cudaSuccess) return;
    std::size_t free = 0, all = 0;
    cudaMemGetInfo(&free, &all);
    throw error({"the arena of ", size.count(), " bytes could not be allocated on the device, which has ", free, " of ",
                 all, " bytes free; use a smaller micro_batch or checkpoint::every<1>"});
  }
  ~cuda_arena() override { cudaFree(memory_); }

  std::byte* data() const override { return memory_; }
  std::byte* host() const override { return nullptr; }

private:
  void copy_out(std::int64_t offset, void* to, std::int64_t count) const override {
    cuda_check(cudaMemcpyAsync(to, memory_ + offset, static_cast<std::size_t>(count), cudaMemcpyDeviceToHost, stream_),
               "copy from the device");
    cuda_check(cudaStreamSynchronize(stream_), "run the kernels");
  }
  void copy_in(std::int64_t offset, void const* from, std::int64_t count) override {
    cuda_check(
        cudaMemcpyAsync(memory_ + offset, from, static_cast<std::size_t>(count), cudaMemcpyHostToDevice, stream_),
        "copy to the device");
  }
  void set(std::int64_t offset, std::int64_t count, unsigned char value) override {
    cuda_check(cudaMemsetAsync(memory_ + offset, value, static_cast<std::size_t>(count), stream_), "fill its memory");
  }

  cudaStream_t stream_;
  std::byte* memory_ = nullptr;
};

} // namespace constrain
