#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

// The kernels below call user functions. By default, nvcc only warns about a call to a function without CT_HOST_DEVICE
// and compiles a kernel without the call. These pragmas make the warnings errors.
#if defined(__CUDACC__)
#pragma nv_diagnostic push
#pragma nv_diag_error 20011, 20013, 20014, 20015
#endif

/// y for one element x.
template <class functor> struct forward_of {
  template <class real> CT_HOST_DEVICE real operator()(real x) const { return functor::forward(x); }
};

template <class functor, class device> struct kernel<op::elementwise<functor>, device> {
  template <class stored> static void run(call const& c, tensor<stored const> x, tensor<stored> y) {
    constrain::map_elements(device{}, c, y.count, forward_of<functor>{}, y.data, x.data);
  }
};

/// dx for one element, from dy, x and y. The functor gets 0 for an x or y that the derivative does not use.
template <class functor> struct gradient_of {
  template <class real> CT_HOST_DEVICE real operator()(real dy) const {
    return functor::gradient(real(0), real(0), dy);
  }
  template <class real> CT_HOST_DEVICE real operator()(real dy, real saved) const {
    if constexpr (op::elementwise_gradient<functor>::uses_input) return functor::gradient(saved, real(0), dy);
    else return functor::gradient(real(0), saved, dy);
  }
  template <class real> CT_HOST_DEVICE real operator()(real dy, real x, real y) const {
    return functor::gradient(x, y, dy);
  }
};

#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

// The inputs are dy, then x and y, each only if the derivative uses it.
template <class functor, class device> struct kernel<op::elementwise_gradient<functor>, device> {
  template <class stored> static void run(call const& c, tensor<stored const> dy, tensor<stored> dx) {
    constrain::map_elements(device{}, c, dx.count, gradient_of<functor>{}, dx.data, dy.data);
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> saved, tensor<stored> dx) {
    constrain::map_elements(device{}, c, dx.count, gradient_of<functor>{}, dx.data, dy.data, saved.data);
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<stored const> y,
                  tensor<stored> dx) {
    constrain::map_elements(device{}, c, dx.count, gradient_of<functor>{}, dx.data, dy.data, x.data, y.data);
  }
};

} // namespace constrain
