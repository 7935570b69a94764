#pragma once

#include "constrain/op/cross_entropy/cpu.hpp"
#include "constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::regularized_cross_entropy, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::regularized_cross_entropy> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double> loss,
                  tensor<accumulate> row_log_sum_exp, tensor<double> row_loss) {
    auto const classes = logits.features();
    double const smoothing = c.options.label_smoothing, z = c.options.z_loss;
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * classes;
        row_log_sum_exp[row] = log_sum_exp(x, classes);
        double const log_sum = static_cast<double>(row_log_sum_exp[row]);
        double const plain = cross_entropy_of(x, labels[row], row_log_sum_exp[row]);
        double const sum =
            static_cast<double>(ordered_sum<accumulate>(0, classes, [=](std::int64_t i) { return accumulate(x[i]); }));
        double const uniform = log_sum - sum / static_cast<double>(classes); // the mean of -log softmax
        row_loss[row] =
            labels[row] == ignored_label ? 0 : (1 - smoothing) * plain + smoothing * uniform + z * log_sum * log_sum;
      }
    });
    add_up_loss(c, row_loss, inverse_count[0], loss);
  }
};

template <> struct kernel<op::regularized_cross_entropy_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::regularized_cross_entropy_gradient> const& c, tensor<double const> dloss,
                  tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<accumulate const> row_log_sum_exp, tensor<double const> inverse_count,
                  tensor<stored> dlogits) {
    auto const classes = logits.features();
    double const smoothing = c.options.label_smoothing;
    auto const z = static_cast<accumulate>(2 * c.options.z_loss), on_label = static_cast<accumulate>(1 - smoothing);
    auto const on_each = static_cast<accumulate>(smoothing / static_cast<double>(classes));
    auto const scale = static_cast<accumulate>(dloss[0] * inverse_count[0]);
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        auto const label = labels[row];
        accumulate const log_sum = row_log_sum_exp[row], growth = 1 + z * log_sum;
        accumulate const factor = label == ignored_label ? accumulate(0) : scale;
        stored const* x = logits.data + row * classes;
        stored* to = dlogits.data + row * classes;
        simd_loop(classes, [=](std::int64_t i) {
          accumulate const target = on_each + (i == label ? on_label : accumulate(0));
          to[i] = (math::exp_or_zero(x[i] - log_sum) * growth - target) * factor;
        });
      }
    });
  }
};

} // namespace constrain
