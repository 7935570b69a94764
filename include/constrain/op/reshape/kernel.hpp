#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/cast/kernel.hpp"
#include "constrain/op/reshape/reshape.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class device> struct kernel<op::reshape, device> {
  template <class stored> static void run(call const& c, tensor<stored const> x, tensor<stored> y) {
    copy_elements(device{}, c, y.count, y.data, x.data);
  }
};

} // namespace constrain
