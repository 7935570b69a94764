#pragma once

#include "constrain/device/cuda/device.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Waits for the work of a stream whose kernels may wait for other processes.
class stream_waiter {
public:
  virtual ~stream_waiter() = default;
  /// Waits until the work of the stream is complete. Throws `error` if the work fails or takes too long.
  virtual void wait(cudaStream_t stream) = 0;
};

/// A stream of a CUDA device.
class cuda_stream {
public:
  /// Makes a non-blocking stream (cudaStreamNonBlocking), which the destructor destroys; or, if `external` is not null,
  /// uses `external`, which must outlive this object. Throws `error` if CUDA fails or, from CUDA 12.8, if `external` is
  /// a stream of another device.
  explicit cuda_stream(cuda_device device, cudaStream_t external = nullptr)
      : device_(device), stream_(external), is_external_(external != nullptr) {
    current_device const guard(device);
    if (is_external_) check_device();
    else cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  ~cuda_stream() {
    if (!is_external_) cudaStreamDestroy(stream_);
  }
  cuda_stream(cuda_stream const&) = delete;
  cuda_stream& operator=(cuda_stream const&) = delete;
  /// The stream, for calls to the CUDA runtime.
  operator cudaStream_t() const { return stream_; }
  /// The device of the stream.
  cuda_device device() const { return device_; }
  /// From now on, `wait_for_peers` calls `waiter->wait`, so `waiter` must exist during these calls. Null: the stream's
  /// work waits for no other process.
  void set_waiter(stream_waiter* waiter) { waiter_ = waiter; }
  /// Waits until the stream's work is complete; without a waiter, does nothing. Call this function before a call to
  /// CUDA that may block until earlier work is complete. Throws `error` as `stream_waiter::wait` does.
  void wait_for_peers() const {
    if (waiter_ != nullptr) waiter_->wait(stream_);
  }

private:
  /// Throws `error` if the stream belongs to another device. Before CUDA 12.8, the runtime cannot tell a stream's
  /// device, so nothing is checked, and the first launch fails instead.
  void check_device() const {
#if CUDART_VERSION >= 12080
    int index = 0;
    cuda_check(cudaStreamGetDevice(stream_, &index), "find the device of `.cuda_stream`");
    if (index != device_.index())
      throw error({"device::cuda: `.cuda_stream` is a stream of CUDA device ", index,
                   ", but the trainer or inference object uses device ", device_.index(), "; set `.cuda_device` to ",
                   index, ", or make the stream on device ", device_.index()});
#endif
  }

  cuda_device device_;
  cudaStream_t stream_{};
  stream_waiter* waiter_ = nullptr;
  bool is_external_;
};

} // namespace constrain
