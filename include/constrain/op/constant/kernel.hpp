#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/constant/constant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = constant.
template <class stored> struct constant_elements {
  stored constant;
  stored* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = constant; }
};

template <class device> struct kernel<op::constant_like, device> {
  template <class stored> static void run(call_of<op::constant_like> const& c, tensor<stored const>, tensor<stored> y) {
    for_elements(device{}, c, y.count, constant_elements<stored>{static_cast<stored>(c.options.value), y.data});
  }
};

/// Loop body of the kernel: y[i] = scalar[0].
template <class from, class to> struct full_elements {
  from const* scalar;
  to* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = static_cast<arithmetic<to>>(scalar[0]); }
};

template <class device> struct kernel<op::full_like, device> {
  template <class to, class from>
  static void run(call const& c, tensor<to const>, tensor<from const> scalar, tensor<to> y) {
    for_elements(device{}, c, y.count, full_elements<from, to>{scalar.data, y.data});
  }
};

} // namespace constrain
