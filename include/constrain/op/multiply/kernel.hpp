#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/multiply/multiply.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class real> struct multiply_elements {
  real const* a;
  real const* b;
  real* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = a[i] * b[i]; }
};

template <class device> struct kernel<op::multiply, device> {
  template <class real> static void run(call const& c, tensor<real const> a, tensor<real const> b, tensor<real> y) {
    for_elements(device{}, c, y.count, multiply_elements<real>{a.data, b.data, y.data});
  }
};

} // namespace constrain
