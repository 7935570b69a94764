#pragma once

#include "constrain/op/cross_entropy/cuda.cuh"
#include "constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// Replaces the loss of each row, the plain cross-entropy, with the regularized loss. One block per row.
template <class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    regularize_kernel(stored const* logits, std::int32_t const* labels, std::int64_t classes, double smoothing,
                      double z, accumulate const* log_sum_exp, double* loss) {
  __shared__ typename block_reduction<accumulate>::memory shared;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  stored const* x = logits + row * classes;
  accumulate sum = 0;
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads) sum += accumulate(x[i]);
  sum = block_reduction<accumulate>{shared}.sum(sum);
  if (threadIdx.x != 0 || labels[row] == ignored_label) return;
  auto const log_sum = static_cast<double>(log_sum_exp[row]);
  double const uniform = log_sum - static_cast<double>(sum) / static_cast<double>(classes);
  loss[row] = (1 - smoothing) * loss[row] + smoothing * uniform + z * log_sum * log_sum;
}

template <class architecture> struct kernel<op::regularized_cross_entropy, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 3}; }
  template <class stored, class accumulate>
  static void run(call_of<op::regularized_cross_entropy> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double> loss,
                  tensor<accumulate> row_log_sum_exp, tensor<double> row_loss) {
    auto& context = *c.parameters.context;
    auto const rows = dim3(static_cast<unsigned>(labels.count));
    cuda_launch(context, rows, cuda_threads, cross_entropy_kernel<stored, accumulate>, logits.data, labels.data,
                logits.features(), row_log_sum_exp.data, row_loss.data);
    cuda_launch(context, rows, cuda_threads, regularize_kernel<stored, accumulate>, logits.data, labels.data,
                logits.features(), c.options.label_smoothing, c.options.z_loss, row_log_sum_exp.data, row_loss.data);
    cuda_launch(context, dim3(1), cuda_threads, mean_loss_kernel<double>, row_loss.data, labels.count,
                inverse_count.data, loss.data, c.add_to(0));
  }
};

/// Loop body of the kernel: dlogits[i], the gradient of the loss with respect to logits[i].
template <class stored, class accumulate> struct regularized_cross_entropy_gradient_elements {
  double const* dloss;
  stored const* logits;
  std::int32_t const* labels;
  accumulate const* log_sum_exp;
  double const* inverse_count;
  stored* dlogits;
  std::int64_t classes;
  accumulate on_label, on_each, z; // 1 - label_smoothing, label_smoothing / classes, 2 z_loss

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const row = i / classes;
    auto const label = labels[row];
    auto const scale = label == ignored_label ? accumulate(0) : static_cast<accumulate>(dloss[0] * *inverse_count);
    accumulate const target = on_each + (i - row * classes == label ? on_label : accumulate(0));
    dlogits[i] = (math::exp(logits[i] - log_sum_exp[row]) * (1 + z * log_sum_exp[row]) - target) * scale;
  }
};

template <class architecture> struct kernel<op::regularized_cross_entropy_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::regularized_cross_entropy_gradient> const& c, tensor<double const> dloss,
                  tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<accumulate const> row_log_sum_exp, tensor<double const> inverse_count,
                  tensor<stored> dlogits) {
    double const smoothing = c.options.label_smoothing;
    for_elements(cuda<architecture>{}, c, dlogits.count,
                 regularized_cross_entropy_gradient_elements<stored, accumulate>{
                     dloss.data, logits.data, labels.data, row_log_sum_exp.data, inverse_count.data, dlogits.data,
                     logits.features(), static_cast<accumulate>(1 - smoothing),
                     static_cast<accumulate>(smoothing / static_cast<double>(logits.features())),
                     static_cast<accumulate>(2 * c.options.z_loss)});
  }
};

} // namespace constrain
