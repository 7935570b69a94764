#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class optimizer> struct kernel<op::update<optimizer>, cpu> {
  template <class stored, class... states>
  static void run(call_of<op::update<optimizer>> const& c, tensor<stored const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> hyper, tensor<stored> weight,
                  states... state) {
    if (norm_and_scale[1] == 0) return; // the gradient norm is not finite: skip the update
    auto const& hyperparameters = op::hyperparameters_of<optimizer, stored>(hyper);
    auto const prepared = hyperparameters.choose(c.options.decays);
    auto const step = hyperparameters.step;
    auto const scale = static_cast<stored>(norm_and_scale[1]);
    for_elements(weight.count, [=](std::int64_t i) {
      op::update_element<optimizer, stored>(prepared, step, gradient[i] * scale, weight[i], state[i]...);
    });
  }
};

} // namespace constrain
