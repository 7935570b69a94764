#pragma once

#include "constrain/op/cross_entropy/cpu.hpp"
#include "constrain/op/focal_loss/focal_loss.hpp"
#include "constrain/op/focal_loss/row.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The cross-entropy of a row, -log softmax(logits)[label], but at least 0, because rounding of the logsumexp can make
/// it negative; 0 for an ignored label.
template <class stored> double nats_of(stored const* logits, std::int32_t label, arithmetic<stored> log_sum_exp) {
  double const nats = cross_entropy_of(logits, label, log_sum_exp);
  return nats < 0 ? 0 : nats; // NaN stays NaN
}

template <> struct kernel<op::focal_loss, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::focal_loss> const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double const> inverse_count, tensor<double> loss, tensor<accumulate> row_log_sum_exp,
                  tensor<double> row_loss) {
    auto const classes = logits.features();
    auto const gamma = c.options.gamma;
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * classes;
        row_log_sum_exp[row] = log_sum_exp(x, classes);
        double const nats = nats_of(x, labels[row], row_log_sum_exp[row]);
        row_loss[row] = labels[row] == ignored_label ? 0 : focal_loss_of(nats, gamma);
      }
    });
    add_up_loss(c, row_loss, inverse_count[0], loss);
  }
};

template <> struct kernel<op::focal_loss_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::focal_loss_gradient> const& c, tensor<double const> dloss, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<accumulate const> row_log_sum_exp,
                  tensor<double const> inverse_count, tensor<stored> dlogits) {
    auto const classes = logits.features();
    auto const gamma = c.options.gamma;
    double const scale = dloss[0] * inverse_count[0];
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * classes;
        double const slope = focal_loss_slope(nats_of(x, labels[row], row_log_sum_exp[row]), gamma);
        cross_entropy_gradient_of(x, classes, labels[row], row_log_sum_exp[row], static_cast<accumulate>(scale * slope),
                                  dlogits.data + row * classes);
      }
    });
  }
};

} // namespace constrain
