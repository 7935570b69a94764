#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/moving_average/moving_average.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// decay * average + (1 - decay) * weight for one element. If the scale is 0, the average keeps its value. The decay is
/// 0 in update number 1, which copies the weight, and the hyperparameter `decay` in later updates.
template <class optimizer, class stored> struct next_average {
  double const* norm_and_scale; // [norm, scale]
  op::step_hyperparameters<optimizer, stored> const* hyper;
  stored decay = 0;

  /// Reads the decay of this update. Returns whether the scale is not 0.
  CT_HOST_DEVICE bool begin() {
    decay = hyper->step.number == 1 ? stored(0) : static_cast<stored>(hyper->other.decay);
    return norm_and_scale[1] != 0;
  }
  CT_HOST_DEVICE stored operator()(stored average, stored weight) const {
    return decay * average + (1 - decay) * weight;
  }
};

template <class optimizer, class device> struct kernel<op::moving_average<optimizer>, device> {
  template <class stored>
  static void run(call const& c, tensor<stored const> weight, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> bytes, tensor<stored> average) {
    auto const* const hyper = reinterpret_cast<op::step_hyperparameters<optimizer, stored> const*>(bytes.data);
    constrain::map_elements(device{}, c, average.count, next_average<optimizer, stored>{norm_and_scale.data, hyper},
                            average.data, average.data, weight.data);
  }
};

} // namespace constrain
