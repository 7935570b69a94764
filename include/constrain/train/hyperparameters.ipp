#pragma once

#include "constrain/train/hyperparameters.hpp"

#include "constrain/base/error.hpp"
#include "constrain/base/number_check.hpp"

namespace constrain::inline CONSTRAIN_VARIANT::detail {

[[gnu::cold]] CONSTRAIN_INLINE double scaled_learning_rate(double rate, double schedule, double factor,
                                                           double maximum) {
  double const product = rate * schedule * factor;
  if (!is_finite(product) || product > maximum || product < -maximum)
    throw error({"hyperparameters: the learning rate ", number_text(rate), " times the factor ", number_text(schedule),
                 " of .schedule and the factor ", number_text(factor),
                 " of scale_learning_rate is not finite in the type of the learning rate; make one of them smaller"});
  return product;
}

} // namespace constrain::detail
