#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/cpu/softmax.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

namespace constrain {

template <> struct kernel<op::cross_entropy, cpu> {
  template <class stored, class real>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels, tensor<double> loss,
                  tensor<real> row_log_sum_exp, tensor<double> row_loss) {
    auto const classes = logits.features();
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * classes;
        row_log_sum_exp[row] = log_sum_exp(x, classes);
        row_loss[row] = labels[row] == ignored_label
                            ? 0.0
                            : static_cast<double>(row_log_sum_exp[row]) - static_cast<double>(real(x[labels[row]]));
      }
    });
    double const sum = ordered_sum<double>(0, labels.count, [=](std::int64_t row) { return row_loss[row]; });
    double const share = sum * c.numbers.inverse_label_count;
    loss[0] = c.add_to(0) ? loss[0] + share : share;
  }
};

template <> struct kernel<op::cross_entropy_gradient, cpu> {
  template <class stored, class real>
  static void run(call const& c, tensor<double const> dloss, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<real const> row_log_sum_exp, tensor<stored> dlogits) {
    auto const classes = logits.features();
    auto const scale = static_cast<real>(dloss[0] * c.numbers.inverse_label_count);
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * classes;
        stored* dx = dlogits.data + row * classes;
        bool const ignored = labels[row] == ignored_label;
        real const factor = ignored ? real(0) : scale;
        real const sum = row_log_sum_exp[row];
        CONSTRAIN_SIMD
        for (std::int64_t i = 0; i < classes; ++i) {
          real const hit = i == labels[row] ? real(1) : real(0);
          dx[i] = (math::exp(x[i] - sum) - hit) * factor;
        }
      }
    });
  }
};

} // namespace constrain
