#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// The logsumexp and the loss of each row; the loss is 0 for an ignored label. One block per row.
template <class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    cross_entropy_kernel(stored const* logits, std::int32_t const* labels, std::int64_t classes,
                         accumulate* log_sum_exp, double* loss) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  stored const* x = logits + row * classes;
  accumulate row_max = x[0];
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads)
    row_max = x[i] > row_max ? accumulate(x[i]) : row_max;
  row_max = block_reduction<accumulate>{shared}.max(row_max);
  accumulate sum = 0;
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads) sum += math::exp(x[i] - row_max);
  sum = row_max + math::log(block_reduction<accumulate>{shared}.sum(sum));
  if (threadIdx.x != 0) return;
  log_sum_exp[row] = sum;
  loss[row] =
      labels[row] == ignored_label ? 0.0 : static_cast<double>(sum) - static_cast<double>(accumulate(x[labels[row]]));
}

// loss[0] = the sum of the rows' losses, times `inverse_count`. If `add`, the result is added to loss[0] instead. One
// block.
template <class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    mean_loss_kernel(accumulate const* row_loss, std::int64_t rows, accumulate const* inverse_count, accumulate* loss,
                     bool add) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  accumulate sum = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += cuda_threads) sum += row_loss[i];
  sum = block_reduction<accumulate>{shared}.sum(sum) * *inverse_count;
  if (threadIdx.x == 0) loss[0] = add ? loss[0] + sum : sum;
}

template <class architecture> struct kernel<op::cross_entropy, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 2}; }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double const> inverse_count, tensor<double> loss, tensor<accumulate> row_log_sum_exp,
                  tensor<double> row_loss) {
    auto& context = *c.parameters.context;
    cuda_launch(context, dim3(static_cast<unsigned>(labels.count)), cuda_threads,
                cross_entropy_kernel<stored, accumulate>, logits.data, labels.data, logits.features(),
                row_log_sum_exp.data, row_loss.data);
    cuda_launch(context, dim3(1), cuda_threads, mean_loss_kernel<double>, row_loss.data, labels.count,
                inverse_count.data, loss.data, c.add_to(0));
  }
};

/// Loop body of the kernel: dlogits[i], the gradient of the loss with respect to logits[i].
template <class stored, class accumulate> struct cross_entropy_gradient_elements {
  double const* dloss;
  stored const* logits;
  std::int32_t const* labels;
  accumulate const* log_sum_exp;
  double const* inverse_count;
  stored* dlogits;
  std::int64_t classes;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const row = i / classes;
    auto const label = labels[row];
    auto const scale = label == ignored_label ? accumulate(0) : static_cast<accumulate>(dloss[0] * *inverse_count);
    accumulate const hit = i - row * classes == label ? accumulate(1) : accumulate(0);
    dlogits[i] = (math::exp(logits[i] - log_sum_exp[row]) - hit) * scale;
  }
};

template <class architecture> struct kernel<op::cross_entropy_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<double const> dloss, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<accumulate const> row_log_sum_exp,
                  tensor<double const> inverse_count, tensor<stored> dlogits) {
    for_elements(cuda<architecture>{}, c, dlogits.count,
                 cross_entropy_gradient_elements<stored, accumulate>{dloss.data, logits.data, labels.data,
                                                                     row_log_sum_exp.data, inverse_count.data,
                                                                     dlogits.data, logits.features()});
  }
};

} // namespace constrain
