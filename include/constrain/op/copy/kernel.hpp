#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/copy/copy.hpp"

#include <cstdint>

namespace constrain::inline CONSTRAIN_VARIANT {

/// y + x for one element of an accumulating copy, before the sum is rounded to the type of y.
struct accumulated {
  template <class to, class from> CT_HOST_DEVICE auto operator()(to y, from x) const { return y + x; }
};

/// y[i] = x[i], or y[i] + x[i] if the call adds to its first output, for i in [0, count).
template <class device, class from, class to>
void copy_or_add(device, call const& c, std::int64_t count, to* y, from const* x) {
  if (c.add_to(0)) map_elements(device{}, c, count, accumulated{}, y, y, x);
  else copy_elements(device{}, c, count, y, x);
}

template <class device> struct kernel<op::copy, device> {
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    copy_or_add(device{}, c, y.count, y.data, x.data);
  }
};

} // namespace constrain
