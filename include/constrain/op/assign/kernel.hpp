#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/assign/assign.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The function of op::assign: y[i] = x[i]; if the scale is 0, y keeps its values.
struct value_to_assign {
  double const* norm_and_scale; // [norm, scale]

  /// Whether the scale is not 0.
  CT_HOST_DEVICE bool begin() const { return norm_and_scale[1] != 0; }
  template <class real> CT_HOST_DEVICE real operator()(real x) const { return x; }
};

template <class device> struct kernel<op::assign, device> {
  template <class from, class to>
  static void run(call const& c, tensor<from const> x, tensor<double const> norm_and_scale, tensor<to> y) {
    map_elements(device{}, c, y.count, value_to_assign{norm_and_scale.data}, y.data, x.data);
  }
};

} // namespace constrain
