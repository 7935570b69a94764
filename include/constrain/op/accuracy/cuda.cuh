#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

// The index of the largest of the `classes` logits of the block's row; of equal logits, the first. NaN is smaller than
// all numbers. `classes` if all logits are NaN. All threads of the block must take part, and every thread gets the
// result. `classes` must fit an int.
template <class stored> static __device__ int block_argmax(stored const* x, std::int64_t classes) {
  using accumulate = arithmetic<stored>;
  __shared__ typename block_reduction<accumulate>::memory shared;
  __shared__ typename block_reduction<int>::memory shared_index;
  accumulate best = -math::infinity<accumulate>;
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads) best = x[i] > best ? accumulate(x[i]) : best;
  best = block_reduction<accumulate>{shared}.max(best);
  // Of equal logits, the first is the argmax: its negated index is the largest.
  int negated_index = -static_cast<int>(classes);
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads)
    if (accumulate(x[i]) == best && -static_cast<int>(i) > negated_index) negated_index = -static_cast<int>(i);
  return -block_reduction<int>{shared_index}.max(negated_index);
}

// correct[row] = 1 if the row's label is the argmax of the row's logits, else 0; one block per row.
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    correct_kernel(stored const* logits, std::int64_t stride, std::int32_t const* labels, std::int64_t classes,
                   std::int32_t* correct) {
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  int const argmax = block_argmax(logits + row * stride, classes);
  if (threadIdx.x == 0) correct[row] = labels[row] != ignored_label && argmax == labels[row] ? 1 : 0;
}

// count[0] = the sum of `correct`; if `adds`, the sum is added to count[0] instead. One block.
template <class stored>
static __global__ void __launch_bounds__(cuda_threads)
    count_kernel(std::int32_t const* correct, std::int64_t rows, bool adds, stored* count) {
  __shared__ typename block_reduction<stored>::memory shared;
  stored sum = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += cuda_threads) sum += correct[i];
  sum = block_reduction<stored>{shared}.sum(sum);
  if (threadIdx.x == 0) count[0] = adds ? count[0] + sum : sum;
}

template <class architecture> struct kernel<op::correct_predictions, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    return {.scratch = in[1].count * size_of(dtype::i32), .launches = 2};
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double> correct) {
    auto& context = *c.parameters.context;
    auto* const row_correct = c.scratch_as<std::int32_t>();
    cuda_launch(context, dim3(static_cast<unsigned>(labels.count)), cuda_threads, correct_kernel<stored>, logits.data,
                logits.row_stride(), labels.data, logits.features(), row_correct);
    cuda_launch(context, dim3(1), cuda_threads, count_kernel<double>, row_correct, labels.count, c.add_to(0),
                correct.data);
  }
};

} // namespace constrain
