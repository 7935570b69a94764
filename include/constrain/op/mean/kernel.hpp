#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/mean/mean.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// A tensor seen around one of its dimensions: [outer, extent, inner].
struct around_dimension {
  std::int64_t outer = 1, extent = 1, inner = 1;

  around_dimension(shape const& s, std::int64_t dimension) {
    for (int i = 0; i < s.rank; ++i) (i < dimension ? outer : i == dimension ? extent : inner) *= s.extent[i];
  }
};

template <class real> struct mean_elements {
  real const* x;
  real* y;
  around_dimension s;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    real const* from = x + (i / s.inner) * s.extent * s.inner + i % s.inner;
    arithmetic<real> sum = 0;
    for (std::int64_t t = 0; t < s.extent; ++t) sum += from[t * s.inner];
    y[i] = sum / static_cast<arithmetic<real>>(s.extent);
  }
};

template <class device> struct kernel<op::mean, device> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    for_elements(device{}, c, y.count, mean_elements<real>{x.data, y.data, {x.shape(), c.options.integer[0]}});
  }
};

template <class real> struct mean_gradient_elements {
  real const* dy;
  real* dx;
  around_dimension s;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = dy[i / (s.extent * s.inner) * s.inner + i % s.inner] / static_cast<arithmetic<real>>(s.extent);
  }
};

template <class device> struct kernel<op::mean_gradient, device> {
  template <class real> static void run(call const& c, tensor<real const> dy, tensor<real> dx) {
    for_elements(device{}, c, dx.count, mean_gradient_elements<real>{dy.data, dx.data, {dx.shape(), c.options.integer[0]}});
  }
};

} // namespace constrain
