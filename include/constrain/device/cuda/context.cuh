#pragma once

#include "constrain/device/cuda/check.cuh"
#include "constrain/device/cuda/gemm_cache.cuh"
#include "constrain/device/kernel.hpp"

#include <cstddef>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What kernels of a CUDA device are started with: its stream, its GEMMs, and the bytes of the arena that the
/// device has for itself: the step parameters and scratch that lives as long as one call.
class cuda_context {
public:
  static constexpr std::size_t multi_tensor_bytes =
      3584; // with a kernel's other arguments less than the 4 KiB it may have

  /// `reserve` is device memory for the step parameters and, behind them, the scratch.
  cuda_context(cudaStream_t stream, std::byte* reserve)
      : stream_(stream), parameters_(reinterpret_cast<step_parameters*>(reserve)),
        scratch_(reserve + cuda<void>::parameters) {
    static_assert(sizeof(step_parameters) <= cuda<void>::parameters);
  }

  /// Where kernels are started, and the GEMMs that run there.
  cudaStream_t stream() const { return stream_; }
  gemm_cache& gemms() { return gemms_; }
  /// The step parameters in the device's memory: a recorded graph reads those of the run that replays it.
  step_parameters const* parameters() const { return parameters_; }
  /// Copies the step parameters to the device, in the stream's order.
  void write_parameters(step_parameters const& n) {
    cuda_check(cudaMemcpyAsync(parameters_, &n, sizeof n, cudaMemcpyHostToDevice, stream_), "copy the step parameters");
  }
  /// Device memory that a kernel may use until it ends, and its bytes.
  std::byte* scratch() const { return scratch_; }
  static constexpr std::int64_t scratch_bytes() { return cuda<void>::workspace; }
  /// The scratch as `count` elements. Throws `error` where it is smaller.
  template <class T> T* scratch_for(std::int64_t count) const {
    if (count * static_cast<std::int64_t>(sizeof(T)) > scratch_bytes())
      throw error({"a kernel needs ", count * static_cast<std::int64_t>(sizeof(T)), " bytes of scratch and has ",
                   scratch_bytes(), "; take a smaller micro_batch"});
    return reinterpret_cast<T*>(scratch_);
  }

  /// Operands of calls that follow one another and are started together.
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
