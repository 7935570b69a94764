#pragma once

#include "constrain/op/cross_entropy/cuda.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class architecture> struct kernel<op::regularized_cross_entropy, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 2}; }
  template <class stored, class accumulate>
  static void run(call_of<op::regularized_cross_entropy> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double> loss,
                  tensor<accumulate> row_log_sum_exp, tensor<double> row_loss) {
    run_cross_entropy(c, c.options, logits, labels, inverse_count, loss, row_log_sum_exp, row_loss);
  }
};

template <class architecture> struct kernel<op::regularized_cross_entropy_gradient, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::regularized_cross_entropy_gradient> const& c, tensor<double const> dloss,
                  tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<accumulate const> row_log_sum_exp, tensor<double const> inverse_count,
                  tensor<stored> dlogits) {
    run_cross_entropy_gradient(c, c.options, dloss, logits, labels, row_log_sum_exp, inverse_count, dlogits);
  }
};

} // namespace constrain
