#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class functor, class real> struct forward_elements {
  real const* x;
  real* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = functor::forward(arithmetic<real>(x[i])); }
};

template <class functor, class device> struct kernel<op::elementwise<functor>, device> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    for_elements(device{}, c, y.count, forward_elements<functor, real>{x.data, y.data});
  }
};

/// `x` and `y` are null where the derivative does not use them.
template <class functor, class real> struct gradient_elements {
  using op = op::elementwise_gradient<functor>;
  using number = arithmetic<real>;
  real const* dy;
  real const* x;
  real const* y;
  real* dx;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    number at = 0, result = 0;
    if constexpr (op::uses_input) at = x[i];
    if constexpr (op::uses_output) result = y[i];
    dx[i] = functor::gradient(at, result, number(dy[i]));
  }
};

template <class functor, class device> struct kernel<op::elementwise_gradient<functor>, device> {
  using op = op::elementwise_gradient<functor>;

  template <class real>
  static void run(call const& c, tensor<real const> dy, tensor<real const> x, tensor<real const> y, tensor<real> dx) {
    for_elements(device{}, c, dx.count, gradient_elements<functor, real>{dy.data, x.data, y.data, dx.data});
  }
  template <class real> static void run(call const& c, tensor<real const> dy, tensor<real const> kept, tensor<real> dx) {
    if constexpr (op::uses_input) run(c, dy, kept, {}, dx);
    else run(c, dy, {}, kept, dx);
  }
  template <class real> static void run(call const& c, tensor<real const> dy, tensor<real> dx) { run(c, dy, {}, {}, dx); }
};

} // namespace constrain
