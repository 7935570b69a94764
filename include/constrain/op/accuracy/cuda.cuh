#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    correct_kernel(real const* logits, std::int32_t const* labels, std::int64_t classes, std::int32_t* correct) {
  using number = arithmetic<real>;
  __shared__ typename block_reduction<number>::memory shared;
  __shared__ typename block_reduction<int>::memory shared_index;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  real const* x = logits + row * classes;
  number best = x[0];
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads) best = x[i] > best ? number(x[i]) : best;
  best = block_reduction<number>{shared}.largest(best);
  // The first of equals: the largest of the negated places.
  int place = -static_cast<int>(classes);
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads)
    if (number(x[i]) == best && -static_cast<int>(i) > place) place = -static_cast<int>(i);
  place = -block_reduction<int>{shared_index}.largest(place);
  if (threadIdx.x == 0) correct[row] = labels[row] != ignored_label && place == labels[row] ? 1 : 0;
}

template <class real>
static __global__ void __launch_bounds__(cuda_threads) count_kernel(std::int32_t const* correct, std::int64_t rows, real* count) {
  __shared__ typename block_reduction<real>::memory shared;
  real sum = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += cuda_threads) sum += correct[i];
  sum = block_reduction<real>{shared}.sum(sum);
  if (threadIdx.x == 0) count[0] = sum;
}

template <class architecture> struct kernel<op::correct_predictions, cuda<architecture>> {
  template <class real>
  static void run(call const& c, tensor<real const> logits, tensor<std::int32_t const> labels, tensor<double> correct) {
    auto& queue = *c.numbers.queue;
    auto* const of_rows = queue.scratch_for<std::int32_t>(labels.count);
    cuda_launch(queue, dim3(static_cast<unsigned>(labels.count)), cuda_threads, correct_kernel<real>, logits.data, labels.data,
                logits.features(), of_rows);
    cuda_launch(queue, dim3(1), cuda_threads, count_kernel<double>, of_rows, labels.count, correct.data);
  }
};

} // namespace constrain
