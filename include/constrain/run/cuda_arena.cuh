#pragma once

#include "constrain/device/cuda/stream.cuh"
#include "constrain/run/arena.hpp"
#include "constrain/run/cuda_staging_buffer.cuh"

#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// An arena in the memory of a CUDA device. Reads and writes run after all earlier work on the stream. A read returns
/// when its copy is complete. Except as `stage_in` describes, a copy that waits for earlier work first calls
/// `cuda_stream::wait_for_peers`, and throws its errors. The members neither depend on the host thread's current device
/// nor change it. The constructor throws `error` if the memory cannot be allocated.
class cuda_arena final : public arena {
public:
  /// Allocates on the stream's device. The stream must outlive the arena.
  cuda_arena(bytes size, cuda_stream const& stream) : arena(size), stream_(stream) {
    current_device const here(stream.device());
    auto const status = cudaMalloc(reinterpret_cast<void**>(&memory_), static_cast<std::size_t>(size.count()));
    if (status != cudaErrorMemoryAllocation) {
      cuda_check(status, "allocate the arena");
      return;
    }
    cudaGetLastError(); // clears the error, so that the program's own error checks do not report it
    std::size_t free_bytes = 0, total_bytes = 0;
    cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "allocate the arena or query the free memory");
    throw error({"the arena of ", size.count(), " bytes could not be allocated on CUDA device ",
                 stream.device().index(), ", which has ", free_bytes, " of ", total_bytes,
                 " bytes free; use a smaller micro_batch or, in a trainer, checkpoint::every<1>"});
  }
  ~cuda_arena() override { cudaFree(memory_); }

  std::byte* data() const override { return memory_; }
  std::byte* host() const override { return nullptr; }

  /// Makes copies to the device go through the pinned memory of `buffer`. A copy that no longer fits into the buffer is
  /// direct, and does not call `cuda_stream::wait_for_peers`. `buffer` must live until the next call to `stage_in`.
  /// With null, copies are direct.
  void stage_in(cuda_staging_buffer* buffer) { buffer_ = buffer; }
  /// Copies `value`, which must be trivially copyable, into the buffer passed to `stage_in`. Returns the copy, valid
  /// until the buffer's next `begin`. Returns `value` itself if there is no buffer, or if the copy does not fit.
  template <class type> type const& staged(type const& value) const {
    return buffer_ == nullptr ? value : *static_cast<type const*>(buffer_->stage(&value, sizeof value));
  }

private:
  void copy_out(std::int64_t offset, void* to, std::int64_t count) const override {
    current_device const here(stream_.device());
    stream_.wait_for_peers();
    cuda_check(cudaMemcpyAsync(to, memory_ + offset, static_cast<std::size_t>(count), cudaMemcpyDeviceToHost, stream_),
               "copy from the device");
    cuda_check(cudaStreamSynchronize(stream_), "run the kernels");
  }
  void copy_in(std::int64_t offset, void const* from, std::int64_t count) override {
    current_device const here(stream_.device());
    if (buffer_ != nullptr) from = buffer_->stage(from, count);
    else if (count > max_bytes_without_wait) stream_.wait_for_peers();
    cuda_check(
        cudaMemcpyAsync(memory_ + offset, from, static_cast<std::size_t>(count), cudaMemcpyHostToDevice, stream_),
        "copy to the device");
  }
  void set(std::int64_t offset, std::int64_t count, unsigned char value) override {
    current_device const here(stream_.device());
    cuda_check(cudaMemsetAsync(memory_ + offset, value, static_cast<std::size_t>(count), stream_), "fill the arena");
  }

  // A copy of at most this many bytes from pageable memory to the device does not wait for earlier work (CUDA C++
  // Programming Guide, "Asynchronous Concurrent Execution").
  static constexpr std::int64_t max_bytes_without_wait = 64 << 10;

  cuda_stream const& stream_;
  std::byte* memory_ = nullptr;
  cuda_staging_buffer* buffer_ = nullptr;
};

} // namespace constrain
