#pragma once

#include "constrain/device/cpu/parallel.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/device/cpu/softmax.hpp"
#include "constrain/device/kernel.hpp"
#include "constrain/op/cross_entropy/cross_entropy.hpp"

#include <algorithm>
#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// The loss of one row of logits, [classes]: log_sum_exp - logits[label] = -log softmax(logits)[label]; 0 for an
/// ignored label. `label` must be in [0, classes) or `ignored_label`.
template <class stored>
double cross_entropy_of(stored const* logits, std::int32_t label, arithmetic<stored> log_sum_exp) {
  using accumulate = arithmetic<stored>;
  return label == ignored_label ? 0.0
                                : static_cast<double>(log_sum_exp) - static_cast<double>(accumulate(logits[label]));
}

/// dlogits = `scale` times the gradient of the loss of one row with respect to the row's logits; 0 for an ignored
/// label, whatever the logits are. `label`: `ignored_label`, the column of the label, or `classes` if another rank has
/// the label's logit. logits and dlogits [classes] may share memory.
template <class stored, class accumulate = arithmetic<stored>>
void cross_entropy_gradient_of(stored const* logits, std::int64_t classes, std::int32_t label, accumulate log_sum_exp,
                               std::type_identity_t<accumulate> scale, stored* dlogits) {
  if (label == ignored_label) {
    std::fill(dlogits, dlogits + classes, stored(0));
    return;
  }
  simd_loop(classes, [=](std::int64_t i) {
    accumulate const one_hot = i == label ? accumulate(1) : accumulate(0);
    dlogits[i] = (math::exp_or_zero(logits[i] - log_sum_exp) - one_hot) * scale;
  });
}

/// loss[0] = the sum of the rows' losses, in a fixed order, times `inverse_count`. If `c` adds to output 0, the result
/// is added to loss[0] instead.
inline void add_up_loss(call const& c, tensor<double> row_loss, double inverse_count, tensor<double> loss) {
  double const sum = ordered_sum<double>(0, row_loss.count, [=](std::int64_t row) { return row_loss[row]; });
  double const contribution = sum * inverse_count;
  loss[0] = c.add_to(0) ? loss[0] + contribution : contribution;
}

template <> struct kernel<op::cross_entropy, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> logits, tensor<std::int32_t const> labels,
                  tensor<double const> inverse_count, tensor<double> loss, tensor<accumulate> row_log_sum_exp,
                  tensor<double> row_loss) {
    auto const classes = logits.features(), stride = logits.row_stride();
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * stride;
        row_log_sum_exp[row] = log_sum_exp(x, classes);
        row_loss[row] = cross_entropy_of(x, labels[row], row_log_sum_exp[row]);
      }
    });
    add_up_loss(c, row_loss, inverse_count[0], loss);
  }
};

template <> struct kernel<op::cross_entropy_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call const&, tensor<double const> dloss, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<accumulate const> row_log_sum_exp,
                  tensor<double const> inverse_count, tensor<stored> dlogits) {
    auto const classes = logits.features(), stride = logits.row_stride(), to_stride = dlogits.row_stride();
    auto const scale = static_cast<accumulate>(dloss[0] * inverse_count[0]);
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        cross_entropy_gradient_of(logits.data + row * stride, classes, labels[row], row_log_sum_exp[row], scale,
                                  dlogits.data + row * to_stride);
    });
  }
};

} // namespace constrain
