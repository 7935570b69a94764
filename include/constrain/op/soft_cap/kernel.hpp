#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/soft_cap/soft_cap.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// cap tanh(x / cap) for one element x.
template <class real> struct soft_capped {
  real cap;

  CT_HOST_DEVICE real operator()(real x) const { return cap * math::tanh(x / cap); }
};

template <class device> struct kernel<op::soft_cap, device> {
  template <class stored> static void run(call_of<op::soft_cap> const& c, tensor<stored const> x, tensor<stored> y) {
    auto const cap = static_cast<arithmetic<stored>>(c.options.cap);
    map_elements(device{}, c, y.count, soft_capped<arithmetic<stored>>{cap}, y.data, x.data);
  }
};

/// dy (1 - (y / cap)^2) for one element, or 0 if y was rounded beyond the cap.
template <class real> struct soft_cap_gradient_of {
  real cap;

  CT_HOST_DEVICE real operator()(real dy, real y) const {
    auto const ratio = y / cap;
    auto const slope = 1 - ratio * ratio;
    return dy * (slope < 0 ? 0 : slope);
  }
};

template <class device> struct kernel<op::soft_cap_gradient, device> {
  template <class stored>
  static void run(call_of<op::soft_cap_gradient> const& c, tensor<stored const> dy, tensor<stored const> y,
                  tensor<stored> dx) {
    auto const cap = static_cast<arithmetic<stored>>(c.options.cap);
    map_elements(device{}, c, dx.count, soft_cap_gradient_of<arithmetic<stored>>{cap}, dx.data, dy.data, y.data);
  }
};

} // namespace constrain
