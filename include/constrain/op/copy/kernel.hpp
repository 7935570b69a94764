#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/copy/copy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// y += x, element i.
template <class from, class to> struct accumulate_elements {
  from const* x;
  to* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = y[i] + x[i]; }
};

template <class device> struct kernel<op::copy, device> {
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    if (c.add_to(0)) for_elements(device{}, c, y.count, accumulate_elements<from, to>{x.data, y.data});
    else for_elements(device{}, c, y.count, cast_elements<from, to>{x.data, y.data});
  }
};

} // namespace constrain
