#pragma once

#include "constrain/op/accuracy/accuracy.hpp"
#include "constrain/op/cross_entropy/cuda.cuh"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

// The index of the maximum logit of the block's row; of equal maxima, the first. NaN counts as smaller than every
// number. The number of classes if all logits are NaN. All threads of the block must take part, and every thread gets
// the result. The number of classes must fit an int.
template <int n, class stored> static __device__ int block_argmax(loss_rows<n, stored> const& rows) {
  using accumulate = arithmetic<stored>;
  __shared__ typename block_reduction<accumulate>::memory shared;
  __shared__ typename block_reduction<int>::memory shared_index;
  accumulate best = -math::infinity<accumulate>;
  rows.for_each_pack([&]<int count>(std::int64_t, accumulate const(&x)[count]) {
    CT_UNROLL
    for (int j = 0; j < count; ++j) best = x[j] > best ? x[j] : best;
  });
  best = block_reduction<accumulate>{shared}.max(best);
  // Of equal maxima, the first is the argmax: it has the maximum negated index.
  int negated_index = -static_cast<int>(rows.classes);
  rows.for_each_pack([&]<int count>(std::int64_t i, accumulate const(&x)[count]) {
    CT_UNROLL
    for (int j = 0; j < count; ++j)
      if (int const negated = -static_cast<int>(i) - j; x[j] == best && negated > negated_index)
        negated_index = negated;
  });
  return -block_reduction<int>{shared_index}.max(negated_index);
}

// correct[row] = 1 if the row's label is the argmax of the row's logits, else 0; one block per row.
template <int n, class stored>
static __global__ void __launch_bounds__(cuda_threads)
    correct_kernel(loss_rows<n, stored> rows, std::int32_t* correct) {
  int const argmax = block_argmax(rows);
  auto const label = rows.label();
  if (threadIdx.x == 0) correct[blockIdx.x] = label != ignored_label && argmax == label ? 1 : 0;
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
    with_loss_rows(logits, labels, {}, true, [&]<int n>(loss_rows<n, stored> const& rows) {
      cuda_launch(context, dim3(static_cast<unsigned>(labels.count)), cuda_threads, correct_kernel<n, stored>, rows,
                  row_correct);
    });
    cuda_launch(context, dim3(1), cuda_threads, count_kernel<double>, row_correct, labels.count, c.add_to(0),
                correct.data);
  }
};

} // namespace constrain
