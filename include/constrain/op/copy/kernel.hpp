#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/copy/copy.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// y + x for one element of an accumulating copy, before it is rounded to the type of y.
struct accumulated {
  template <class to, class from> CT_HOST_DEVICE auto operator()(to y, from x) const { return y + x; }
};

template <class device> struct kernel<op::copy, device> {
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    if (c.add_to(0)) map_elements(device{}, c, y.count, accumulated{}, y.data, y.data, x.data);
    else copy_elements(device{}, c, y.count, y.data, x.data);
  }
};

} // namespace constrain
