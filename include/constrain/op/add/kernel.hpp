#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/add/add.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// a + b for one element, before the sum is rounded to the type of y.
struct sum_of {
  template <class real> CT_HOST_DEVICE real operator()(real a, real b) const { return a + b; }
};

template <class device> struct kernel<op::add, device> {
  template <class stored>
  static void run(call const& c, tensor<stored const> a, tensor<stored const> b, tensor<stored> y) {
    map_elements(device{}, c, y.count, sum_of{}, y.data, a.data, b.data);
  }
};

} // namespace constrain
