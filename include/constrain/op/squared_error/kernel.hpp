#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/kernel_needs.hpp"
#include "constrain/op/squared_error/squared_error.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body: partial[part] = the sum of the squared differences in one part of the `count` elements.
template <class stored, class label> struct squared_error_parts {
  stored const* prediction;
  label const* target;
  double* partial;
  std::int64_t count;

  CT_HOST_DEVICE void operator()(std::int64_t part) const {
    constexpr auto parts = op::squared_error::parts;
    double sum = 0;
    for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) {
      double const difference =
          static_cast<double>(arithmetic<stored>(prediction[i])) - static_cast<double>(arithmetic<label>(target[i]));
      sum += difference * difference;
    }
    partial[part] = sum;
  }
};

/// Body of a loop with one iteration: loss[0] = the sum of `partial` [parts], times inverse_count[0]; if `add`, the
/// result is added to loss[0] instead.
struct squared_error_sum {
  double const* partial;
  double const* inverse_count;
  double* loss;
  bool add;

  CT_HOST_DEVICE void operator()(std::int64_t) const {
    double sum = 0;
    for (std::int64_t part = 0; part < op::squared_error::parts; ++part) sum += partial[part];
    double const contribution = sum * *inverse_count;
    loss[0] = add ? loss[0] + contribution : contribution;
  }
};

template <class device> struct kernel<op::squared_error, device> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) { return {.launches = 2}; }
  template <class stored, class label>
  static void run(call const& c, tensor<stored const> prediction, tensor<label const> target,
                  tensor<double const> inverse_count, tensor<double> loss, tensor<double> partial) {
    for_elements(device{}, c, op::squared_error::parts,
                 squared_error_parts<stored, label>{prediction.data, target.data, partial.data, prediction.count});
    for_elements(device{}, c, 1, squared_error_sum{partial.data, inverse_count.data, loss.data, c.add_to(0)});
  }
};

/// Loop body: dprediction[i] = 2 (prediction[i] - target[i]) * dloss[0] * inverse_count[0]. dprediction may share the
/// memory of prediction.
template <class stored, class label> struct squared_error_gradient_elements {
  double const* dloss;
  stored const* prediction;
  label const* target;
  double const* inverse_count;
  stored* dprediction;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    using accumulate = arithmetic<stored>;
    auto const scale = static_cast<accumulate>(2 * dloss[0] * *inverse_count);
    dprediction[i] = (accumulate(prediction[i]) - static_cast<accumulate>(arithmetic<label>(target[i]))) * scale;
  }
};

template <class device> struct kernel<op::squared_error_gradient, device> {
  template <class stored, class label>
  static void run(call const& c, tensor<double const> dloss, tensor<stored const> prediction,
                  tensor<label const> target, tensor<double const> inverse_count, tensor<stored> dprediction) {
    for_elements(device{}, c, dprediction.count,
                 squared_error_gradient_elements<stored, label>{dloss.data, prediction.data, target.data,
                                                                inverse_count.data, dprediction.data});
  }
};

} // namespace constrain
