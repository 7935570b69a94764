#pragma once

#include "constrain/op/cross_entropy/cpu.hpp"
#include "constrain/op/regularized_cross_entropy/regularized_cross_entropy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The regularized loss of a row of logits, and its gradient (see op::regularized_cross_entropy). In the members, x and
/// dlogits are [classes], and `label` is in [0, classes) or `ignored_label`. Without regularization, the results are
/// bit-identical to the results of `cross_entropy_of` and `cross_entropy_gradient_of`.
template <class stored> class regularized_loss {
public:
  using accumulate = arithmetic<stored>;

  /// `classes`: number of logits of a row. `scale`: multiplies the gradient, but not the loss.
  regularized_loss(cross_entropy_options const& options, std::int64_t classes, double scale)
      : options_(options), classes_(classes), scale_(static_cast<accumulate>(scale)) {}

  /// The loss of the row x, whose logsumexp is `log_sum`; 0 for an ignored label.
  double loss_of_row(stored const* x, std::int32_t label, accumulate log_sum) const {
    double const nll = cross_entropy_of(x, label, log_sum);
    if (is_plain() || label == ignored_label) return nll;
    double const smoothing = options_.label_smoothing, log_sum_fp64 = static_cast<double>(log_sum);
    double const z_term = options_.z_loss * log_sum_fp64 * log_sum_fp64;
    if (smoothing == 0) return nll + z_term; // the mean of -log softmax may be infinite
    double const sum =
        static_cast<double>(ordered_sum<accumulate>(0, classes_, [=](std::int64_t i) { return accumulate(x[i]); }));
    double const uniform_loss = log_sum_fp64 - sum / static_cast<double>(classes_); // the mean of -log softmax
    return (1 - smoothing) * nll + smoothing * uniform_loss + z_term;
  }
  /// dlogits = the gradient of the loss with respect to the row x, whose logsumexp is `log_sum`, times the scale; 0 for
  /// an ignored label, whatever the logits are. x and dlogits may share memory.
  void gradient(stored const* x, std::int32_t label, accumulate log_sum, stored* dlogits) const {
    if (is_plain() || label == ignored_label)
      return cross_entropy_gradient_of(x, classes_, label, log_sum, scale_, dlogits);
    auto const label_target = static_cast<accumulate>(1 - options_.label_smoothing);
    auto const uniform_target = static_cast<accumulate>(options_.label_smoothing / static_cast<double>(classes_));
    accumulate const softmax_factor = 1 + static_cast<accumulate>(2 * options_.z_loss) * log_sum;
    simd_loop(classes_, [=, factor = scale_](std::int64_t i) {
      accumulate const target = uniform_target + (i == label ? label_target : accumulate(0));
      dlogits[i] = (math::exp_or_zero(x[i] - log_sum) * softmax_factor - target) * factor;
    });
  }

private:
  bool is_plain() const { return options_.label_smoothing == 0 && options_.z_loss == 0; }

  cross_entropy_options options_;
  std::int64_t classes_;
  accumulate scale_;
};

template <> struct kernel<op::regularized_cross_entropy, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::regularized_cross_entropy> const& c, tensor<stored const> logits,
                  tensor<std::int32_t const> labels, tensor<double const> inverse_count, tensor<double> loss,
                  tensor<accumulate> row_log_sum_exp, tensor<double> row_loss) {
    auto const classes = logits.features(), stride = logits.row_stride();
    regularized_loss<stored> const regularized(c.options, classes, 1);
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored const* x = logits.data + row * stride;
        row_log_sum_exp[row] = log_sum_exp(x, classes);
        row_loss[row] = regularized.loss_of_row(x, labels[row], row_log_sum_exp[row]);
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
    auto const stride = logits.row_stride(), to_stride = dlogits.row_stride();
    regularized_loss<stored> const regularized(c.options, logits.features(), dloss[0] * inverse_count[0]);
    parallel_chunks(labels.count, 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        regularized.gradient(logits.data + row * stride, labels[row], row_log_sum_exp[row],
                             dlogits.data + row * to_stride);
    });
  }
};

} // namespace constrain
