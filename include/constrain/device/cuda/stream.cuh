#pragma once

#include "constrain/device/cuda/device.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

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

private:
  cuda_device device_;
  cudaStream_t stream_{};
};

} // namespace constrain
