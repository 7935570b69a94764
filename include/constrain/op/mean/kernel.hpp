#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/mean/mean.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The shape of a tensor as [outer, extent, inner], where `extent` is the extent of one dimension.
struct around_dimension {
  std::int64_t outer = 1;  // product of the extents before the dimension
  std::int64_t extent = 1; // extent of the dimension
  std::int64_t inner = 1;  // product of the extents after the dimension

  /// Splits the shape `s` at the dimension with index `dimension`; 0: the outermost.
  around_dimension(shape const& s, std::int64_t dimension) {
    for (int i = 0; i < s.rank; ++i) (i < dimension ? outer : i == dimension ? extent : inner) *= s.extent[i];
  }
};

/// Loop body of the kernel: y[i] = the mean of x over the dimension, at the outer and inner index of y[i]. `s`: the
/// shape of x.
template <class stored> struct mean_elements {
  stored const* x;
  stored* y;
  around_dimension s;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    stored const* from = x + (i / s.inner) * s.extent * s.inner + i % s.inner;
    arithmetic<stored> sum = 0;
    for (std::int64_t t = 0; t < s.extent; ++t) sum += from[t * s.inner];
    y[i] = sum / static_cast<arithmetic<stored>>(s.extent);
  }
};

template <class device> struct kernel<op::mean, device> {
  template <class stored> static void run(call_of<op::mean> const& c, tensor<stored const> x, tensor<stored> y) {
    for_elements(device{}, c, y.count, mean_elements<stored>{x.data, y.data, {x.shape(), c.options.dimension}});
  }
};

/// Loop body of the kernel: dx[i] = the gradient with respect to x[i], which is the element of dy with the same outer
/// and inner index, divided by `s.extent`. `s`: the shape of dx.
template <class stored> struct mean_gradient_elements {
  stored const* dy;
  stored* dx;
  around_dimension s;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    dx[i] = dy[i / (s.extent * s.inner) * s.inner + i % s.inner] / static_cast<arithmetic<stored>>(s.extent);
  }
};

template <class device> struct kernel<op::mean_gradient, device> {
  template <class stored>
  static void run(call_of<op::mean_gradient> const& c, tensor<stored const> dy, tensor<stored> dx) {
    for_elements(device{}, c, dx.count,
                 mean_gradient_elements<stored>{dy.data, dx.data, {dx.shape(), c.options.dimension}});
  }
};

} // namespace constrain
