#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/moving_average/moving_average.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel.
template <class optimizer, class stored> struct moving_average_elements {
  stored const* weight;
  double const* clip; // [norm, scale]
  op::step_hyperparameters<optimizer, stored> const* hyper;
  stored* average;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    if (clip[1] == 0) return;
    stored const decay = hyper->step.number == 1 ? stored(0) : static_cast<stored>(hyper->other.decay);
    average[i] = decay * average[i] + (1 - decay) * weight[i];
  }
};

template <class optimizer, class device> struct kernel<op::moving_average<optimizer>, device> {
  template <class stored>
  static void run(call const& c, tensor<stored const> weight, tensor<double const> clip,
                  tensor<std::uint8_t const> hyper, tensor<stored> average) {
    auto const* const own = reinterpret_cast<op::step_hyperparameters<optimizer, stored> const*>(hyper.data);
    for_elements(device{}, c, average.count,
                 moving_average_elements<optimizer, stored>{weight.data, clip.data, own, average.data});
  }
};

} // namespace constrain
