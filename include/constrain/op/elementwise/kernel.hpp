#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] = functor::forward(x[i]).
template <class functor, class stored> struct forward_elements {
  stored const* x;
  stored* y;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = functor::forward(arithmetic<stored>(x[i])); }
};

template <class functor, class device> struct kernel<op::elementwise<functor>, device> {
  template <class stored> static void run(call const& c, tensor<stored const> x, tensor<stored> y) {
    for_elements(device{}, c, y.count, forward_elements<functor, stored>{x.data, y.data});
  }
};

/// Loop body of the kernel: dx[i] = functor::gradient(x[i], y[i], dy[i]). If the derivative does not use x, the pointer
/// `x` is null and the functor gets 0 instead of x[i]; the same holds for y.
template <class functor, class stored> struct gradient_elements {
  using op = op::elementwise_gradient<functor>;
  using accumulate = arithmetic<stored>;
  stored const* dy;
  stored const* x;
  stored const* y;
  stored* dx;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    accumulate at = 0, result = 0;
    if constexpr (op::uses_input) at = x[i];
    if constexpr (op::uses_output) result = y[i];
    dx[i] = functor::gradient(at, result, accumulate(dy[i]));
  }
};

template <class functor, class device> struct kernel<op::elementwise_gradient<functor>, device> {
  using op = op::elementwise_gradient<functor>;

  // The inputs are dy, then those of x and y that the derivative uses.
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<stored const> y,
                  tensor<stored> dx) {
    for_elements(device{}, c, dx.count, gradient_elements<functor, stored>{dy.data, x.data, y.data, dx.data});
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> kept, tensor<stored> dx) {
    if constexpr (op::uses_input) run(c, dy, kept, {}, dx);
    else run(c, dy, {}, kept, dx);
  }
  template <class stored> static void run(call const& c, tensor<stored const> dy, tensor<stored> dx) {
    run(c, dy, {}, {}, dx);
  }
};

} // namespace constrain
