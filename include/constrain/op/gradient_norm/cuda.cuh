#pragma once

#include "constrain/device/cuda/group.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/constant/kernel.hpp"
#include "constrain/op/gradient_norm/gradient_norm.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

inline constexpr std::int64_t square_blocks = 1024; // of a gradient at most, each with every 1024th chunk

template <class real> struct squares_entry {
  real const* gradient;
  std::int64_t elements, tensors; // of one, and how many
  std::int64_t first;             // where the sums of its chunks begin
  double* total;
};

} // namespace detail

template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    square_chunks_kernel(cuda_group<detail::squares_entry<real>> group, double* sums) {
  __shared__ block_reduction<double>::memory shared;
  auto const& entry = group.entries[blockIdx.y];
  auto const chunks = norm_chunks(entry.elements);
  for (auto chunk = static_cast<std::int64_t>(blockIdx.x); chunk < entry.tensors * chunks; chunk += gridDim.x) {
    auto const* const tensor = entry.gradient + chunk / chunks * entry.elements;
    auto const begin = chunk % chunks * norm_chunk;
    auto const end = begin + norm_chunk < entry.elements ? begin + norm_chunk : entry.elements;
    double sum = 0;
    for (auto i = begin + threadIdx.x; i < end; i += cuda_threads) {
      auto const g = static_cast<double>(tensor[i]);
      sum += g * g;
    }
    sum = block_reduction<double>{shared}.sum(sum);
    if (threadIdx.x == 0) sums[entry.first + chunk] = sum;
  }
}

/// Adds each tensor's chunks in an order that their number alone decides, then the tensors in theirs.
template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    gradient_norm_squared_kernel(cuda_group<detail::squares_entry<real>> group, double const* sums) {
  __shared__ block_reduction<double>::memory shared;
  auto const& entry = group.entries[blockIdx.x];
  auto const chunks = norm_chunks(entry.elements);
  double total = 0;
  for (std::int64_t tensor = 0; tensor < entry.tensors; ++tensor) {
    double sum = 0;
    for (auto k = static_cast<std::int64_t>(threadIdx.x); k < chunks; k += cuda_threads)
      sum += sums[entry.first + tensor * chunks + k];
    total += block_reduction<double>{shared}.sum(sum);
  }
  if (threadIdx.x == 0) *entry.total = total;
}

template <class architecture> struct kernel<op::gradient_norm_squared, cuda<architecture>> {
  template <class real> static void run(call const& c, tensor<real const> gradient, tensor<double> squares) {
    auto& queue = *c.numbers.queue;
    // The first gradient of a run defines the whole output, as every accumulator's first write does.
    if (!c.add_to(0)) for_elements(cuda<architecture>{}, c, squares.count, constant_elements<double>{0, squares.data});
    auto& group = queue.template pending<cuda_group<detail::squares_entry<real>>>();
    auto const elements = gradient.shape().elements(), tensors = gradient.count / elements;
    auto const room = queue.scratch_bytes() / static_cast<std::int64_t>(sizeof(double));
    if (group.count > 0 && end_of(group) + tensors * norm_chunks(elements) > room) start(queue, group);
    group.add({gradient.data, elements, tensors, end_of(group), squares.data + c.options.integer[0]});
    if (!c.same_kernel_follows || group.full()) start(queue, group);
  }

private:
  template <class real> using squares_group = cuda_group<detail::squares_entry<real>>;

  template <class real> static std::int64_t end_of(squares_group<real> const& group) {
    if (group.count == 0) return 0;
    auto const& last = group.entries[group.count - 1];
    return last.first + last.tensors * norm_chunks(last.elements);
  }
  template <class real> static void start(cuda_queue& queue, squares_group<real>& group) {
    auto* const sums = queue.template scratch_for<double>(end_of(group));
    auto const entries = static_cast<unsigned>(group.count);
    std::int64_t most = 0;
    for (int i = 0; i < group.count; ++i) {
      auto const chunks = group.entries[i].tensors * norm_chunks(group.entries[i].elements);
      most = chunks > most ? chunks : most;
    }
    auto const blocks = static_cast<unsigned>(most < detail::square_blocks ? most : detail::square_blocks);
    cuda_launch(queue, dim3(blocks, entries), cuda_threads, square_chunks_kernel<real>, group, sums);
    cuda_launch(queue, dim3(entries), cuda_threads, gradient_norm_squared_kernel<real>, group, sums);
    group.count = 0;
  }
};

template <class real>
static __global__ void clip_coefficient_kernel(real const* squares, std::int64_t count, run_numbers const* numbers, real* clip) {
  real sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += squares[i];
  real const norm = math::sqrt(sum), limit = numbers->clip_norm, share = limit / (norm + 1e-6);
  clip[0] = norm;
  clip[1] = !math::finite(norm) ? real(0) : limit > 0 && share < 1 ? share : real(1);
}

template <class architecture> struct kernel<op::clip_coefficient, cuda<architecture>> {
  static void run(call const& c, tensor<double const> squares, tensor<double> clip) {
    auto& queue = *c.numbers.queue;
    cuda_launch(queue, dim3(1), 1, clip_coefficient_kernel<double>, squares.data, squares.count, queue.numbers(), clip.data);
  }
};

} // namespace constrain
