#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/constant/constant.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class real> struct constant_elements {
  real constant;
  real* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = constant; }
};

template <class device> struct kernel<op::constant_like, device> {
  template <class real> static void run(call const& c, tensor<real const>, tensor<real> y) {
    for_elements(device{}, c, y.count, constant_elements<real>{static_cast<real>(c.options.real[0]), y.data});
  }
};

} // namespace constrain
