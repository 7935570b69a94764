#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/cast/cast.hpp"

#include <type_traits>

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body: y[i] = x[i], converted to the type of y. Elements of the same type keep their bits.
template <class from, class to> struct cast_elements {
  from const* x;
  to* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = x[i]; }
};

/// x for one element, before it is rounded to the type of y.
struct identity_function {
  template <class real> CT_HOST_DEVICE real operator()(real x) const { return x; }
};

/// y[i] = x[i] for i in [0, count), converted to the type of y. On the CPU, elements of the same type keep their bits;
/// on a CUDA device, a 16-bit NaN may become another NaN.
template <class device, class from, class to>
void copy_elements(device, call const& c, std::int64_t count, to* y, from const* x) {
  if constexpr (std::is_same_v<device, cpu>) for_elements(device{}, c, count, cast_elements<from, to>{x, y});
  else map_elements(device{}, c, count, identity_function{}, y, x);
}

template <class device> struct kernel<op::cast, device> {
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    map_elements(device{}, c, y.count, identity_function{}, y.data, x.data);
  }
};

} // namespace constrain
