#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/moving_average/moving_average.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// The decay of one update: 0 in update number 1, which copies the weight; otherwise the hyperparameter `decay`.
template <class optimizer, class stored>
CT_HOST_DEVICE stored decay_of_update(op::step_hyperparameters<optimizer, stored> const& hyper) {
  return hyper.step.number == 1 ? stored(0) : static_cast<stored>(hyper.other.decay);
}

} // namespace detail

/// Loop body of the kernel: average[i] = decay * average[i] + (1 - decay) * weight[i].
template <class stored> struct moving_average_elements {
  stored const* weight;
  stored decay;
  stored* average;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { average[i] = decay * average[i] + (1 - decay) * weight[i]; }
};

/// `moving_average_elements` for devices whose memory the host cannot read: the kernel reads the scale and the
/// hyperparameters. If the scale in `norm_and_scale` is 0, the average keeps its value.
template <class optimizer, class stored> struct guarded_moving_average_elements {
  stored const* weight;
  double const* norm_and_scale; // [norm, scale]
  op::step_hyperparameters<optimizer, stored> const* hyper;
  stored* average;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    if (norm_and_scale[1] != 0) moving_average_elements<stored>{weight, detail::decay_of_update(*hyper), average}(i);
  }
};

template <class optimizer, class device> struct kernel<op::moving_average<optimizer>, device> {
  template <class stored>
  static void run(call const& c, tensor<stored const> weight, tensor<double const> norm_and_scale,
                  tensor<std::uint8_t const> bytes, tensor<stored> average) {
    auto const* const hyper = reinterpret_cast<op::step_hyperparameters<optimizer, stored> const*>(bytes.data);
    if constexpr (std::is_same_v<device, cpu>) {
      // The host reads the scale once: with the check in the loop, g++ does not vectorize the loop.
      if (norm_and_scale[1] == 0) return;
      moving_average_elements<stored> const body{weight.data, detail::decay_of_update(*hyper), average.data};
      for_elements(device{}, c, average.count, body);
    } else {
      guarded_moving_average_elements<optimizer, stored> const body{weight.data, norm_and_scale.data, hyper,
                                                                    average.data};
      for_elements(device{}, c, average.count, body);
    }
  }
};

} // namespace constrain
