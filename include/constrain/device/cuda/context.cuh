#pragma once

#include "constrain/device/cuda/check.cuh"
#include "constrain/device/cuda/gemm_cache.cuh"
#include "constrain/device/kernel.hpp"

#include <cstddef>
#include <new>
#include <string>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

class nccl_ranks;

/// The context of kernels on a CUDA device: stream, cuBLASLt GEMMs, groups of ranks, the operands of merged calls, and
/// the step parameters in device memory.
class cuda_context {
public:
  /// Maximum bytes of a `multi_tensor`. Leaves space for other arguments within 4 KiB, the limit for all arguments of a
  /// kernel before CUDA 12.1.
  static constexpr std::size_t multi_tensor_bytes = 3584;

  /// `parameters` points to cuda<...>::parameter_bytes bytes of device memory. `stream` and this memory must outlive
  /// this object. Throws `error` if cuBLASLt cannot be initialized.
  cuda_context(cudaStream_t stream, std::byte* parameters)
      : stream_(stream), parameters_(reinterpret_cast<step_parameters*>(parameters)) {
    static_assert(sizeof(step_parameters) <= cuda<void>::parameter_bytes);
  }

  /// The stream on which kernels and GEMMs run.
  cudaStream_t stream() const { return stream_; }
  /// The cuBLASLt GEMMs of this context.
  gemm_cache& gemms() { return gemms_; }
  /// Whether the GEMMs of layers round fp32 operands to TF32. Call `use_tf32` before the first GEMM.
  bool uses_tf32() const { return tf32_; }
  void use_tf32(bool enabled) { tf32_ = enabled; }
  /// The groups of ranks for collectives (nccl_ranks.cuh). With several ranks, call `connect`, which stores a
  /// reference, before `ranks`; with one rank, call neither.
  nccl_ranks& ranks() const { return *ranks_; }
  void connect(nccl_ranks& ranks) { ranks_ = &ranks; }
  /// The address of the step parameters in device memory, from which kernels of a captured CUDA graph read the current
  /// values.
  step_parameters const* parameters() const { return parameters_; }
  /// Copies the step parameters to device memory, in stream order. If `values` is in pinned memory, it must not change
  /// until the copy is complete. Throws `error` if CUDA fails.
  void write_parameters(step_parameters const& values) {
    cuda_check(cudaMemcpyAsync(parameters_, &values, sizeof values, cudaMemcpyHostToDevice, stream_),
               "copy the step parameters");
  }

  /// The `multi_tensor` (multi_tensor.cuh) in which merged calls collect their operands for one launch. The first of
  /// these calls begins a new collection, and discards any operands that an earlier call has left.
  template <class collection> collection& pending(call const& c) {
    static_assert(sizeof(collection) <= multi_tensor_bytes && alignof(collection) <= 16);
    static_assert(std::is_trivially_destructible_v<collection>);
    if (c.merged_before == 0) return *new (multi_tensor_) collection(); // sets all bytes to 0, including padding
    return *std::launder(reinterpret_cast<collection*>(multi_tensor_));
  }

private:
  cudaStream_t stream_;
  gemm_cache gemms_;
  step_parameters* parameters_;
  bool tf32_ = false;
  nccl_ranks* ranks_ = nullptr;
  alignas(16) std::byte multi_tensor_[multi_tensor_bytes]{};
};

} // namespace constrain
