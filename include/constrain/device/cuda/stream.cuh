#pragma once

#include "constrain/device/cuda/device.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Waits for the work of a stream that can wait for other processes.
class stream_waiter {
public:
  virtual ~stream_waiter() = default;
  /// Waits until the work of the stream is complete. Throws `error` if it fails, or takes too long.
  virtual void wait(cudaStream_t stream) = 0;
};

/// A stream of a CUDA device.
class cuda_stream {
public:
  /// Throws `error` if CUDA fails.
  explicit cuda_stream(cuda_device device) : device_(device) {
    current_device const here(device);
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  ~cuda_stream() { cudaStreamDestroy(stream_); }
  cuda_stream(cuda_stream const&) = delete;
  cuda_stream& operator=(cuda_stream const&) = delete;
  /// The stream, for calls to the CUDA runtime.
  operator cudaStream_t() const { return stream_; }
  /// The device of the stream.
  cuda_device device() const { return device_; }
  /// From now on, `wait_for_peers` waits with `waiter`, which must outlive its use. Null: there are no other processes.
  void wait_with(stream_waiter* waiter) { waiter_ = waiter; }
  /// Waits for the stream's work, if it can wait for other processes. Call this before a call to CUDA that may block
  /// until earlier work is complete. Throws `error` as `stream_waiter::wait` does.
  void wait_for_peers() const {
    if (waiter_ != nullptr) waiter_->wait(stream_);
  }

private:
  cuda_device device_;
  cudaStream_t stream_{};
  stream_waiter* waiter_ = nullptr;
};

} // namespace constrain
