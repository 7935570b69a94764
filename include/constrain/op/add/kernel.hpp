#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/add/add.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// y = a + b, element i.
template <class stored> struct add_elements {
  stored const* a;
  stored const* b;
  stored* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = a[i] + b[i]; }
};

template <class device> struct kernel<op::add, device> {
  template <class stored>
  static void run(call const& c, tensor<stored const> a, tensor<stored const> b, tensor<stored> y) {
    for_elements(device{}, c, y.count, add_elements<stored>{a.data, b.data, y.data});
  }
};

} // namespace constrain
