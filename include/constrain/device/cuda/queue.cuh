#pragma once

#include "constrain/device/cuda/check.cuh"
#include "constrain/device/cuda/products.cuh"
#include "constrain/device/kernel.hpp"

#include <cstddef>
#include <string>

namespace constrain::inline CONSTRAIN_VARIANT {

/// What kernels of a CUDA device are started with: its stream, its matrix products, and the bytes of the arena that the
/// device has for itself: the run's numbers and scratch that lives as long as one call.
class cuda_queue {
public:
  static constexpr std::size_t group_bytes = 3584; // with a kernel's other arguments less than the 4 KiB it may have

  cuda_queue(cudaStream_t stream, std::byte* reserve)
      : stream_(stream), numbers_(reinterpret_cast<run_numbers*>(reserve)), scratch_(reserve + cuda<void>::numbers) {
    static_assert(sizeof(run_numbers) <= cuda<void>::numbers);
  }

  cudaStream_t stream() const { return stream_; }
  cuda_products& products() { return products_; }
  /// The run's numbers in the device's memory: a recorded graph reads those of the run that replays it.
  run_numbers const* numbers() const { return numbers_; }
  void write_numbers(run_numbers const& n) {
    cuda_check(cudaMemcpyAsync(numbers_, &n, sizeof n, cudaMemcpyHostToDevice, stream_), "copy the run's numbers");
  }
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
    static_assert(sizeof(group) <= group_bytes);
    return *reinterpret_cast<group*>(group_);
  }

private:
  cudaStream_t stream_;
  cuda_products products_;
  run_numbers* numbers_;
  std::byte* scratch_;
  alignas(16) std::byte group_[group_bytes]{};
};

} // namespace constrain
