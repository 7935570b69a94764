#pragma once

#include "constrain/device/cuda/event.cuh"
#include "constrain/device/cuda/pinned_memory.cuh"
#include "constrain/device/cuda/stream.cuh"
#include "constrain/run/pending_results.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace constrain::inline CONSTRAIN_VARIANT {

/// A staging buffer in pinned memory for the inputs and results of one enqueued run, and an event that marks the end of
/// the run. Only the calls with a stream parameter use the stream, so a buffer can outlive the stream.
class cuda_staging_buffer final : public pending_results {
public:
  /// `inputs`, `results`: bytes, at least 1 together; each copy takes a multiple of 8 bytes. `device` must be the
  /// current device. Throws `error` if CUDA fails.
  cuda_staging_buffer(cuda_device device, std::int64_t inputs, std::int64_t results)
      : device_(device), input_capacity_(inputs), results_begin_((inputs + 7) / 8 * 8),
        memory_(results_begin_ + results) {}
  /// Waits for the run, because its copies use the memory.
  ~cuda_staging_buffer() override { finish(); }

  /// Waits for the run that used this buffer before, and empties the buffer. Throws `error` if CUDA reports an error.
  void begin() {
    wait();
    next_input_ = 0, next_result_ = results_begin_;
  }
  /// Copies `count` bytes into the buffer and returns the copy's address, a multiple of 8. Returns `from` if the bytes
  /// do not fit into the buffer.
  void const* stage(void const* from, std::int64_t count) {
    if (count > input_capacity_ - next_input_) return from;
    auto* const to = memory_.data() + next_input_;
    std::memcpy(to, from, static_cast<std::size_t>(count));
    next_input_ = (next_input_ + count + 7) / 8 * 8;
    return to;
  }
  /// Enqueues a copy of the first `count` elements of a result from the arena into the buffer. `arena`: the arena's
  /// first byte. All copies since `begin`, each of `padded_bytes` bytes, must fit into the buffer's bytes for results.
  /// Throws `error` if CUDA fails.
  void copy_result(std::byte const* arena, host_view const& result, std::int64_t count, cudaStream_t stream) {
    auto const bytes = static_cast<std::size_t>(count * size_of(result.type));
    cuda_check(
        cudaMemcpyAsync(memory_.data() + next_result_, arena + result.offset, bytes, cudaMemcpyDeviceToHost, stream),
        "copy a result from the device");
    next_result_ += padded_bytes(result, count);
  }
  /// Makes `wait` wait for the stream's work so far. Throws `error` if CUDA fails.
  void record(cudaStream_t stream) {
    cuda_check(cudaEventRecord(done_, stream), "record an event");
    is_pending_ = true;
  }
  std::byte const* wait() override {
    if (is_pending_) {
      current_device const here(device_);
      cuda_check(cudaEventSynchronize(done_), "run the kernels");
      is_pending_ = false;
    }
    return results();
  }
  /// Waits as `wait` does, but ignores errors.
  void finish() noexcept {
    if (is_pending_) cudaEventSynchronize(done_);
  }
  /// The first byte of the copies of the results. The host must call `wait` before it reads them.
  std::byte const* results() const { return memory_.data() + results_begin_; }

private:
  cuda_device device_;
  std::int64_t input_capacity_, results_begin_; // bytes for inputs; where the results begin
  std::int64_t next_input_ = 0, next_result_{}; // where the next input and, after `begin`, the next result begin
  pinned_memory memory_;
  cuda_event done_;
  bool is_pending_ = false; // whether the run may still be incomplete
};

} // namespace constrain
