#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/assign/assign.hpp"
#include "constrain/op/cast/kernel.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = x[i] unless scale is 0.
template <class from, class to> struct assign_elements {
  from const* x;
  double const* norm_and_scale; // [norm, scale]
  to* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    if (norm_and_scale[1] != 0) y[i] = static_cast<to>(x[i]);
  }
};

template <class device> struct kernel<op::assign, device> {
  template <class from, class to>
  static void run(call const& c, tensor<from const> x, tensor<double const> norm_and_scale, tensor<to> y) {
    if constexpr (std::is_same_v<device, cpu>) {
      // The scale is checked once, before the loop: with the check in the loop, g++ does not vectorize the loop.
      if (norm_and_scale[1] != 0) for_elements(device{}, c, y.count, cast_elements<from, to>{x.data, y.data});
    } else for_elements(device{}, c, y.count, assign_elements<from, to>{x.data, norm_and_scale.data, y.data});
  }
};

} // namespace constrain
