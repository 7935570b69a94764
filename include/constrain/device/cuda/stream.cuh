#pragma once

#include "constrain/device/cuda/check.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A stream of the current CUDA device. The constructor throws `error` if there is no device, or if the device cannot
/// run code for compute capability `capability`.
class cuda_stream {
public:
  /// `capability`: as in `sm<90>`, which is compute capability 9.0.
  explicit cuda_stream(int capability) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
      throw error("device::cuda: there is no CUDA device here; run on a machine that has one, or write device::cpu");
    int device = 0, major = 0, minor = 0;
    cuda_check(cudaGetDevice(&device), "find its current device");
    cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "ask the device");
    cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "ask the device");
    if (10 * major + minor < capability)
      throw error({"device::cuda<sm<", capability, ">>: the device here has compute capability ", major, ".", minor,
                   "; write sm<", 10 * major + minor, "> and compile for it"});
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  ~cuda_stream() { cudaStreamDestroy(stream_); }
  cuda_stream(cuda_stream const&) = delete;
  cuda_stream& operator=(cuda_stream const&) = delete;
  /// The stream, for calls of the CUDA runtime.
  operator cudaStream_t() const { return stream_; }

private:
  cudaStream_t stream_{};
};

} // namespace constrain
