#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/cast/cast.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body: y[i] = x[i], converted to the type of y. Elements of the same type keep their bits.
template <class from, class to> struct cast_elements {
  from const* x;
  to* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = x[i]; }
};

/// The result for one element, before it is rounded to the type of the result.
struct identity_function {
  template <class real> CT_HOST_DEVICE real operator()(real x) const { return x; }
};

template <class device> struct kernel<op::cast, device> {
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    map_elements(device{}, c, y.count, identity_function{}, y.data, x.data);
  }
};

} // namespace constrain
