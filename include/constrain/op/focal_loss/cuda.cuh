#pragma once

#include "constrain/op/cross_entropy/cuda.cuh"
#include "constrain/op/focal_loss/focal_loss.hpp"
#include "constrain/op/focal_loss/row.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: replaces the loss of a row, the plain cross-entropy, with the focal loss. A cross-entropy
/// below 0, which rounding of the logsumexp can cause, counts as 0.
struct focal_rows {
  double* loss;
  double gamma;

  CT_HOST_DEVICE void operator()(std::int64_t row) const {
    loss[row] = focal_loss_of(loss[row] < 0 ? 0 : loss[row], gamma); // NaN stays NaN
  }
};

template <class architecture> struct kernel<op::focal_loss, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 3}; }
  template <class stored, class accumulate>
  static void run(call_of<op::focal_loss> const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double const> inverse_count, tensor<double> loss, tensor<accumulate> row_log_sum_exp,
                  tensor<double> row_loss) {
    auto& context = *c.parameters.context;
    with_loss_rows(logits, labels, {}, true, [&]<int n>(loss_rows<n, stored> const& rows) {
      cuda_launch(context, dim3(static_cast<unsigned>(labels.count)), cuda_threads,
                  cross_entropy_kernel<n, stored, accumulate>, rows, row_log_sum_exp.data, row_loss.data);
    });
    for_elements(cuda<architecture>{}, c, labels.count, focal_rows{row_loss.data, c.options.gamma});
    cuda_launch(context, dim3(1), cuda_threads, sum_loss_kernel<double>, row_loss.data, labels.count,
                inverse_count.data, loss.data, c.add_to(0));
  }
};

/// Loop body of the kernel: factor[row] = the factor that multiplies the gradient of the cross-entropy of the row; 0
/// for an ignored label.
template <class stored, class accumulate> struct focal_factors {
  double const* dloss;
  stored const* logits;
  std::int32_t const* labels;
  accumulate const* log_sum_exp;
  double const* inverse_count;
  accumulate* factor;
  std::int64_t classes;
  double gamma;

  CT_HOST_DEVICE void operator()(std::int64_t row) const {
    auto const label = labels[row];
    factor[row] = 0;
    if (label == ignored_label) return;
    double const nats =
        static_cast<double>(log_sum_exp[row]) - static_cast<double>(accumulate(logits[row * classes + label]));
    double const slope = focal_loss_slope(nats < 0 ? 0 : nats, gamma); // NaN stays NaN
    factor[row] = static_cast<accumulate>(dloss[0] * *inverse_count * slope);
  }
};

// dlogits = the gradient of the loss with respect to the logits, from the factors of focal_factors; may overwrite the
// logits. One block per row, n elements per access.
template <int n, class stored, class accumulate>
static __global__ void __launch_bounds__(cuda_threads)
    focal_loss_gradient_kernel(stored const* logits, std::int32_t const* labels, accumulate const* log_sum_exp,
                               accumulate const* factors, stored* dlogits, std::int64_t classes) {
  auto const row = static_cast<std::int64_t>(blockIdx.x);
  accumulate const factor = factors[row], log_sum = log_sum_exp[row];
  auto const label = labels[row];
  accumulate values[n];
  CT_KEEP_LOOP
  for (auto i = static_cast<std::int64_t>(threadIdx.x) * n; i < classes; i += cuda_threads * n) {
    load_pack(logits + row * classes + i, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) {
      accumulate const one_hot = i + j == label ? accumulate(1) : accumulate(0);
      values[j] = label == ignored_label ? accumulate(0) : (math::exp(values[j] - log_sum) - one_hot) * factor;
    }
    store_pack(values, dlogits + row * classes + i);
  }
}

template <class architecture> struct kernel<op::focal_loss_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    return {.scratch = in[3].count * size_of(in[3].type), .launches = 2};
  }
  template <class stored, class accumulate>
  static void run(call_of<op::focal_loss_gradient> const& c, tensor<double const> dloss, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<accumulate const> row_log_sum_exp,
                  tensor<double const> inverse_count, tensor<stored> dlogits) {
    auto const classes = logits.features();
    auto* const factors = c.scratch_as<accumulate>();
    for_elements(cuda<architecture>{}, c, labels.count,
                 focal_factors<stored, accumulate>{dloss.data, logits.data, labels.data, row_log_sum_exp.data,
                                                   inverse_count.data, factors, classes, c.options.gamma});
    auto const launch = [&](auto* kernel) {
      cuda_launch(*c.parameters.context, dim3(static_cast<unsigned>(labels.count)), cuda_threads, kernel, logits.data,
                  labels.data, row_log_sum_exp.data, factors, dlogits.data, classes);
    };
    if (takes_packs<pack_of<stored>>(classes, logits.data, dlogits.data))
      launch(&focal_loss_gradient_kernel<pack_of<stored>, stored, accumulate>);
    else launch(&focal_loss_gradient_kernel<1, stored, accumulate>);
  }
};

} // namespace constrain
