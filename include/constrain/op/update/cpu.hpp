#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/update/update.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

namespace detail {

/// Updates all elements of a parameter, and calls `after(i)` after the update of element i; does nothing if the scale
/// is 0, which means that the gradient norm is not finite.
template <class optimizer, class stored, class function, class... states>
void update_elements(bool decays, tensor<stored const> gradient, tensor<double const> norm_and_scale,
                     tensor<std::uint8_t const> hyper, tensor<stored> weight, function const& after, states... state) {
  if (norm_and_scale[1] == 0) return;
  auto const& hyperparameters = op::hyperparameters_of<optimizer, stored>(hyper);
  auto const prepared = hyperparameters.choose(decays);
  auto const step = hyperparameters.step;
  auto const scale = static_cast<stored>(norm_and_scale[1]);
  for_elements(weight.count, [=](std::int64_t i) {
    op::update_element<optimizer, stored>(prepared, step, gradient[i] * scale, weight[i], state[i]...);
    after(i);
  });
}

} // namespace detail

template <class optimizer> struct kernel<op::update<optimizer>, cpu> {
  template <class stored, class... states>
  static void run(call_of<op::update<optimizer>> const& c, tensor<stored const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> hyper, tensor<stored> weight,
                  states... state) {
    auto const nothing = [](std::int64_t) {};
    detail::update_elements<optimizer>(c.options.decays, gradient, norm_and_scale, hyper, weight, nothing, state...);
  }
};

template <class optimizer> struct kernel<op::update_and_copy<optimizer>, cpu> {
  template <class stored, class copied, class... states>
  static void run(call_of<op::update_and_copy<optimizer>> const& c, tensor<stored const> gradient,
                  tensor<double const> norm_and_scale, tensor<std::uint8_t const> hyper, tensor<stored> weight,
                  tensor<copied> copy, states... state) {
    auto const write_copy = [=](std::int64_t i) { copy[i] = weight[i]; };
    detail::update_elements<optimizer>(c.options.decays, gradient, norm_and_scale, hyper, weight, write_copy, state...);
  }
};

} // namespace constrain
