#pragma once

#include "constrain/base/dtype.hpp"
#include "constrain/base/host_device.hpp"
#include "constrain/device/cuda/context.cuh"
#include "constrain/device/cuda/packs.cuh"
#include "constrain/device/cuda/tiles.hpp"
#include "constrain/device/kernel_needs.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The default number of threads per block.
inline constexpr int cuda_threads = 256;

/// Launches a kernel on a context's stream with `blocks` blocks, at least 1, of `threads` threads. Throws `error` if
/// the launch fails.
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

/// Enqueues a kernel that calls `f(i)` for i in [0, count). The calls must be independent; `f` must not be a lambda
/// (see device/elements.hpp). Throws `error` if the launch fails.
template <class architecture, class function>
void for_elements(cuda<architecture>, call const& c, std::int64_t count, function const& f) {
  if (count <= 0) return;
  cuda_launch(*c.parameters.context, dim3(blocks_for(count, cuda_threads)), cuda_threads, elements_kernel<function>,
              count, f);
}

/// The kernel of `map_elements`: n elements per access. A thread loads two packs of each array before it computes, so
/// that more loads are in flight. The first threads also handle the elements after the last pack.
template <int n, class function, class to, class... from>
static __global__ void __launch_bounds__(cuda_threads)
    map_kernel(std::int64_t count, function f, to* y, from const*... x) {
  if constexpr (requires { f.begin(); })
    if (!f.begin()) return;
  auto const thread = static_cast<std::int64_t>(blockIdx.x) * cuda_threads + threadIdx.x;
  auto const stride = static_cast<std::int64_t>(gridDim.x) * cuda_threads * n;
  auto const packed_count = count - count % n;
  auto const store = [&](std::int64_t i, stored_pack<n, from> const&... loaded) {
    arithmetic<to> results[n];
    [&](auto const&... packs) {
      CT_UNROLL
      for (int j = 0; j < n; ++j) results[j] = f(packs.values[j]...);
    }(unpacked(loaded)...);
    store_pack(results, y + i);
  };
  auto i = thread * n;
  CT_KEEP_LOOP
  for (; i + stride < packed_count; i += 2 * stride)
    [&](auto const&... first) {
      [&](auto const&... second) {
        store(i, first...), store(i + stride, second...);
      }(load_stored<n>(x + i + stride)...);
    }(load_stored<n>(x + i)...);
  if (i < packed_count) store(i, load_stored<n>(x + i)...);
  if (thread < count - packed_count) y[packed_count + thread] = f(arithmetic<from>(x[packed_count + thread])...);
}

/// Enqueues a kernel for y[i] = f(x[i]...) for i in [0, count), as in device/elements.hpp. Throws `error` if the launch
/// fails.
template <class architecture, class function, class to, class... from>
void map_elements(cuda<architecture>, call const& c, std::int64_t count, function const& f, to* y, from const*... x) {
  if (count <= 0) return;
  auto const launch = [&](std::int64_t packs, auto* kernel) {
    cuda_launch(*c.parameters.context, dim3(blocks_for(packs, cuda_threads)), cuda_threads, kernel, count, f, y, x...);
  };
  constexpr int n = pack_of<to, from...>;
  if (are_aligned(y, x...)) launch((count + n - 1) / n, &map_kernel<n, function, to, from...>);
  else launch(count, &map_kernel<1, function, to, from...>);
}

/// The address of the step parameters, in device memory.
template <class architecture> step_parameters const* parameters_on(cuda<architecture>, call const& c) {
  return c.parameters.context->parameters();
}

} // namespace constrain
