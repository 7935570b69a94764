#pragma once

#include "constrain/device/cuda/start_kernel.cuh"
#include "constrain/device/math.hpp"

#include <cstddef>
#include <cstring>

namespace constrain::inline CONSTRAIN_VARIANT {

/// `count` bytes, as an argument of a kernel.
template <std::size_t count> struct argument_bytes { alignas(8) std::byte values[count]; };

/// The kernel of `overwrite_if_skipped`: one block. (Without __grid_constant__, nvcc copies `replacement` to local
/// memory.)
template <class real, std::size_t count>
static __global__ void __launch_bounds__(cuda_threads)
    overwrite_if_skipped_kernel(real const* norm, __grid_constant__ argument_bytes<count> const replacement,
                                std::byte* target) {
  if (math::finite(*norm)) return;
  for (std::size_t i = threadIdx.x; i < count; i += cuda_threads) target[i] = replacement.values[i];
}

/// Overwrites the value at `target`, in device memory, with `replacement`, a trivially copyable object, if `*norm` is
/// not finite when the kernel runs. `norm`: the gradient norm of the previous step, in memory that the device can read;
/// if it is not finite, the device has skipped the update of that step. Only enqueues the kernel. Throws `error` if the
/// launch fails.
template <class real, class type>
void overwrite_if_skipped(cuda_context& context, real const* norm, type const& replacement, std::byte* target) {
  static_assert(
      sizeof(type) <= cuda_context::multi_tensor_bytes,
      "run: the hyperparameters of a step take more than 3584 bytes, but must fit into a kernel's arguments on "
      "a CUDA device; make the optimizer's `hyper` smaller");
  argument_bytes<sizeof(type)> bytes;
  std::memcpy(bytes.values, &replacement, sizeof(type));
  cuda_launch(context, dim3(1), cuda_threads, overwrite_if_skipped_kernel<real, sizeof(type)>, norm, bytes, target);
}

} // namespace constrain
