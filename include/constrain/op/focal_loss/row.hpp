#pragma once

#include "constrain/device/math.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The focal loss of a row whose cross-entropy is `nats` = -log p >= 0, where p is the probability of the row's label:
/// (1 - p)^gamma * nats.
CT_HOST_DEVICE inline double focal_loss_of(double nats, double gamma) {
  return math::pow(-math::expm1(-nats), gamma) * nats;
}

/// The derivative of `focal_loss_of` with respect to `nats`: the gradient of the focal loss is this factor times the
/// gradient of the cross-entropy. The derivative is (1 - p)^gamma (1 + gamma p nats / (1 - p)). For p = 0 and p = 1,
/// the quotient p nats / (1 - p) is replaced with its limit.
CT_HOST_DEVICE inline double focal_loss_slope(double nats, double gamma) {
  double const p = math::exp(-nats), complement = -math::expm1(-nats);
  double const quotient = p == 0 ? 0 : complement == 0 ? 1 : p * nats / complement;
  return math::pow(complement, gamma) * (1 + gamma * quotient);
}

} // namespace constrain
