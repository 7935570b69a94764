#pragma once

#include "constrain/device/cuda/check.cuh"
#include "constrain/device/cuda/gemm_cache.cuh"
#include "constrain/device/kernel.hpp"

#include <cstddef>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The context of kernels on a CUDA device: stream, cuBLASLt GEMMs, the step parameters in device memory, and scratch
/// memory that is valid during one call. The step parameters and the scratch memory are in the bytes that the device
/// reserves at the end of the arena (run/arena.hpp).
class cuda_context {
public:
  static constexpr std::size_t multi_tensor_bytes =
      3584; // leaves room for a kernel's other arguments within 4 KiB, CUDA's limit before version 12.1

  /// `reserve` points to device memory of cuda<...>::reserve bytes: the step parameters, then the scratch memory.
  cuda_context(cudaStream_t stream, std::byte* reserve)
      : stream_(stream), parameters_(reinterpret_cast<step_parameters*>(reserve)),
        scratch_(reserve + cuda<void>::parameters) {
    static_assert(sizeof(step_parameters) <= cuda<void>::parameters);
  }

  /// The stream on which kernels start, and the GEMMs that run on it.
  cudaStream_t stream() const { return stream_; }
  gemm_cache& gemms() { return gemms_; }
  /// The step parameters in device memory, from which kernels of a captured CUDA graph read the current values.
  step_parameters const* parameters() const { return parameters_; }
  /// Copies the step parameters to device memory, in stream order. Throws `error` if CUDA fails.
  void write_parameters(step_parameters const& n) {
    cuda_check(cudaMemcpyAsync(parameters_, &n, sizeof n, cudaMemcpyHostToDevice, stream_), "copy the step parameters");
  }
  /// Scratch memory for one call, `scratch_bytes()` bytes.
  std::byte* scratch() const { return scratch_; }
  static constexpr std::int64_t scratch_bytes() { return cuda<void>::workspace; }
  /// The scratch memory as `count` elements. Throws `error` if the scratch memory is too small.
  template <class T> T* scratch_for(std::int64_t count) const {
    if (count * static_cast<std::int64_t>(sizeof(T)) > scratch_bytes())
      throw error({"a kernel needs ", count * static_cast<std::int64_t>(sizeof(T)),
                   " bytes of scratch memory, but has ", scratch_bytes(), "; use a smaller micro_batch"});
    return reinterpret_cast<T*>(scratch_);
  }

  /// The operands collected for one multi-tensor launch, as a `multi_tensor` (multi_tensor.cuh).
  template <class group> group& pending() {
    static_assert(sizeof(group) <= multi_tensor_bytes);
    return *reinterpret_cast<group*>(group_);
  }

private:
  cudaStream_t stream_;
  gemm_cache gemms_;
  step_parameters* parameters_;
  std::byte* scratch_;
  alignas(16) std::byte group_[multi_tensor_bytes]{};
};

} // namespace constrain
