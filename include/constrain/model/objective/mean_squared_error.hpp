#pragma once

#include "constrain/op/squared_error/squared_error.hpp"
#include "constrain/program/port.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Regression: the mean of (prediction - target)^2 over all elements of the model's result. The labels, named
/// "targets", are real and have the shape of the result. No label can be ignored. The accuracy and the perplexity of
/// `evaluate` are NaN. Refused: token ids as the result.
struct mean_squared_error {
  static constexpr port_spec labels[] = {{.name = "targets", .type = port_type::real, .each = per::logit}};

  /// The loss, a scalar.
  constexpr value operator()(value prediction, value targets) const { return squared_error(prediction, targets); }
};

} // namespace constrain
