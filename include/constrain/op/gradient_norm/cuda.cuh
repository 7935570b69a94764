#pragma once

#include "constrain/device/cuda/group.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/constant/kernel.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr int square_parts = 128; // of each gradient, summed by a block each

template <class real> struct squares_entry {
  real const* gradient;
  std::int64_t count;
  double* total;
};

} // namespace detail

template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    square_parts_kernel(cuda_group<detail::squares_entry<real>> group, double* partial) {
  __shared__ block_reduction<double>::memory shared;
  auto const& entry = group.entries[blockIdx.y];
  auto const begin = part_begin(entry.count, detail::square_parts, blockIdx.x);
  auto const end = part_begin(entry.count, detail::square_parts, blockIdx.x + 1);
  double sum = 0;
  for (auto i = begin + threadIdx.x; i < end; i += cuda_threads) sum += static_cast<double>(entry.gradient[i]) * static_cast<double>(entry.gradient[i]);
  sum = block_reduction<double>{shared}.sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.y * detail::square_parts + blockIdx.x] = sum;
}

template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    square_sums_kernel(cuda_group<detail::squares_entry<real>> group, double const* partial) {
  __shared__ block_reduction<double>::memory shared;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < detail::square_parts; i += cuda_threads)
    sum += partial[blockIdx.x * detail::square_parts + static_cast<unsigned>(i)];
  sum = block_reduction<double>{shared}.sum(sum);
  if (threadIdx.x == 0) *group.entries[blockIdx.x].total = sum;
}

template <class architecture> struct kernel<op::square_sum, cuda<architecture>> {
  template <class real> static void run(call const& c, tensor<real const> gradient, tensor<double> squares) {
    auto& queue = *c.numbers.queue;
    // The first gradient of a run defines the whole output, as every accumulator's first write does.
    if (!c.add_to(0)) for_elements(cuda<architecture>{}, c, squares.count, constant_elements<double>{0, squares.data});
    auto& group = queue.template pending<cuda_group<detail::squares_entry<real>>>();
    group.add({gradient.data, gradient.count, squares.data + c.options.integer[0]});
    if (c.same_kernel_follows && !group.full()) return;
    auto* const partial = queue.template scratch_for<double>(group.count * detail::square_parts);
    auto const entries = static_cast<unsigned>(group.count);
    cuda_launch(queue, dim3(detail::square_parts, entries), cuda_threads, square_parts_kernel<real>, group, partial);
    cuda_launch(queue, dim3(entries), cuda_threads, square_sums_kernel<real>, group, partial);
    group.count = 0;
  }
};

template <class real>
static __global__ void clip_kernel(real const* squares, std::int64_t count, run_numbers const* numbers, real* clip) {
  real sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += squares[i];
  real const norm = math::sqrt(sum), limit = numbers->clip_norm, share = limit / (norm + 1e-6);
  clip[0] = norm;
  clip[1] = !math::finite(norm) ? real(0) : limit > 0 && share < 1 ? share : real(1);
}

template <class architecture> struct kernel<op::clip, cuda<architecture>> {
  static void run(call const& c, tensor<double const> squares, tensor<double> clip) {
    auto& queue = *c.numbers.queue;
    cuda_launch(queue, dim3(1), 1, clip_kernel<double>, squares.data, squares.count, queue.numbers(), clip.data);
  }
};

} // namespace constrain
