#pragma once

#include "constrain/op/cross_entropy_and_gradient/cross_entropy_and_gradient.hpp"
#include "constrain/op/regularized_cross_entropy/cpu.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Computes the gradient of each row while the row's logits are in the cache.
template <> struct kernel<op::cross_entropy_and_gradient, cpu> {
  template <class stored>
  static void run(call_of<op::cross_entropy_and_gradient> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double const> dloss,
                  tensor<stored> dlogits, tensor<double> loss, tensor<double> row_loss) {
    using accumulate = arithmetic<stored>;
    auto const classes = logits.features(), stride = logits.row_stride(), to_stride = dlogits.row_stride();
    regularized_loss<stored> const regularized(c.options, classes, dloss[0] * inverse_count[0]);
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* const x = logits.data + row * stride;
        accumulate const log_sum = log_sum_exp(x, classes);
        row_loss[row] = regularized.loss_of_row(x, labels[row], log_sum);
        regularized.gradient(x, labels[row], log_sum, dlogits.data + row * to_stride);
      }
    });
    call loss_call = c;
    loss_call.adds >>= 1; // add_up_loss tests output 0, but the loss is output 1
    add_up_loss(loss_call, row_loss, inverse_count[0], loss);
  }
};

} // namespace constrain
