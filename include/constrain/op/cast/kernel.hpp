#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/cast/cast.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = x[i], converted to the type of y.
template <class from, class to> struct cast_elements {
  from const* x;
  to* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = x[i]; }
};

template <class device> struct kernel<op::cast, device> {
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    for_elements(device{}, c, y.count, cast_elements<from, to>{x.data, y.data});
  }
};

} // namespace constrain
