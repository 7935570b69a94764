#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/device/math.hpp"
#include "constrain/op/soft_cap/soft_cap.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = cap tanh(x[i] / cap).
template <class stored> struct soft_cap_elements {
  stored const* x;
  stored* y;
  arithmetic<stored> cap;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = cap * math::tanh(static_cast<arithmetic<stored>>(x[i]) / cap);
  }
};

template <class device> struct kernel<op::soft_cap, device> {
  template <class stored> static void run(call_of<op::soft_cap> const& c, tensor<stored const> x, tensor<stored> y) {
    for_elements(device{}, c, y.count,
                 soft_cap_elements<stored>{x.data, y.data, static_cast<arithmetic<stored>>(c.options.cap)});
  }
};

/// Loop body of the kernel: dx[i] = dy[i] (1 - (y[i] / cap)^2), or 0 if y[i] was rounded beyond the cap.
template <class stored> struct soft_cap_gradient_elements {
  stored const* dy;
  stored const* y;
  stored* dx;
  arithmetic<stored> cap;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    auto const ratio = static_cast<arithmetic<stored>>(y[i]) / cap;
    auto const slope = 1 - ratio * ratio;
    dx[i] = static_cast<arithmetic<stored>>(dy[i]) * (slope < 0 ? 0 : slope);
  }
};

template <class device> struct kernel<op::soft_cap_gradient, device> {
  template <class stored>
  static void run(call_of<op::soft_cap_gradient> const& c, tensor<stored const> dy, tensor<stored const> y,
                  tensor<stored> dx) {
    for_elements(
        device{}, c, dx.count,
        soft_cap_gradient_elements<stored>{dy.data, y.data, dx.data, static_cast<arithmetic<stored>>(c.options.cap)});
  }
};

} // namespace constrain
