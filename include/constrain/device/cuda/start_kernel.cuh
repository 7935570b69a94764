#pragma once

#include "constrain/base/host_device.hpp"
#include "constrain/device/cuda/context.cuh"
#include "constrain/device/cuda/tiles.hpp"
#include "constrain/device/kernel_needs.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The default number of threads per block.
inline constexpr int cuda_threads = 256;

/// Launches a kernel on a context's stream. Throws `error` if the launch fails.
template <class... parameters>
void cuda_launch(cuda_context& context, dim3 blocks, int threads, void (*kernel)(parameters...),
                 std::type_identity_t<parameters>... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = context.stream();
  cuda_check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch a kernel");
}

/// The kernel of `for_elements`: thread t of the grid handles the elements t, t + n, t + 2 n, ..., where n is the
/// number of threads in the grid.
template <class function>
static __global__ void __launch_bounds__(cuda_threads) elements_kernel(std::int64_t count, function f) {
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x; i < count; i += stride) f(i);
}

/// Calls `f(i)` for i in [0, count) on the device. The calls must be independent; `f` must not be a lambda (see
/// device/elements.hpp).
template <class architecture, class function>
void for_elements(cuda<architecture>, call const& c, std::int64_t count, function const& f) {
  if (count <= 0) return;
  cuda_launch(*c.parameters.context, dim3(blocks_for(count, cuda_threads)), cuda_threads, elements_kernel<function>,
              count, f);
}

/// The address of the step parameters, in device memory.
template <class architecture> step_parameters const* parameters_on(cuda<architecture>, call const& c) {
  return c.parameters.context->parameters();
}

} // namespace constrain
