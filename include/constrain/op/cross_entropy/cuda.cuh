#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/device/math.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class stored, class real>
static __global__ void __launch_bounds__(cuda_threads)
    cross_entropy_kernel(stored const* logits, std::int32_t const* labels, std::int64_t classes, real* log_sum_exp, double* loss) {
  __shared__ typename block_reduction<real>::memory shared;
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  stored const* x = logits + row * classes;
  real top = x[0];
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads) top = x[i] > top ? real(x[i]) : top;
  top = block_reduction<real>{shared}.largest(top);
  real sum = 0;
  for (std::int64_t i = threadIdx.x; i < classes; i += cuda_threads) sum += math::exp(x[i] - top);
  sum = top + math::log(block_reduction<real>{shared}.sum(sum));
  if (threadIdx.x != 0) return;
  log_sum_exp[row] = sum;
  loss[row] = labels[row] == ignored_label ? 0.0 : static_cast<double>(sum) - static_cast<double>(real(x[labels[row]]));
}

template <class real>
static __global__ void __launch_bounds__(cuda_threads)
    mean_loss_kernel(real const* row_loss, std::int64_t rows, run_numbers const* numbers, real* loss, bool add) {
  __shared__ typename block_reduction<real>::memory shared;
  real sum = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += cuda_threads) sum += row_loss[i];
  sum = block_reduction<real>{shared}.sum(sum) * numbers->inverse_label_count;
  if (threadIdx.x == 0) loss[0] = add ? loss[0] + sum : sum;
}

template <class architecture> struct kernel<op::cross_entropy, cuda<architecture>> {
  template <class stored, class real>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels, tensor<double> loss,
                  tensor<real> row_log_sum_exp, tensor<double> row_loss) {
    auto& queue = *c.numbers.queue;
    cuda_launch(queue, dim3(static_cast<unsigned>(labels.count)), cuda_threads, cross_entropy_kernel<stored, real>, logits.data,
                labels.data, logits.features(), row_log_sum_exp.data, row_loss.data);
    cuda_launch(queue, dim3(1), cuda_threads, mean_loss_kernel<double>, row_loss.data, labels.count, queue.numbers(), loss.data, c.add_to(0));
  }
};

template <class stored, class real> struct cross_entropy_gradient_elements {
  double const* dloss;
  stored const* logits;
  std::int32_t const* labels;
  real const* log_sum_exp;
  stored* dlogits;
  std::int64_t classes;
  run_numbers const* numbers;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const row = i / classes;
    auto const label = labels[row];
    auto const scale = label == ignored_label ? real(0) : static_cast<real>(dloss[0] * numbers->inverse_label_count);
    real const hit = i - row * classes == label ? real(1) : real(0);
    dlogits[i] = (math::exp(logits[i] - log_sum_exp[row]) - hit) * scale;
  }
};

template <class architecture> struct kernel<op::cross_entropy_gradient, cuda<architecture>> {
  template <class stored, class real>
  static void run(call const& c, tensor<double const> dloss, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<real const> row_log_sum_exp, tensor<stored> dlogits) {
    for_elements(cuda<architecture>{}, c, dlogits.count,
                 cross_entropy_gradient_elements<stored, real>{dloss.data, logits.data, labels.data, row_log_sum_exp.data,
                                                               dlogits.data, logits.features(), c.numbers.queue->numbers()});
  }
};

} // namespace constrain
