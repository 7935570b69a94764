#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/mean/mean.hpp"

namespace constrain {

namespace detail {

/// A tensor seen around one of its dimensions: [outer, extent, inner].
struct around {
  std::int64_t outer = 1, extent = 1, inner = 1;

  around(shape const& s, std::int64_t dimension) {
    for (int i = 0; i < s.rank; ++i) (i < dimension ? outer : i == dimension ? extent : inner) *= s.extent[i];
  }
};

} // namespace detail

template <> struct kernel<op::mean, cpu> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    detail::around const s(x.shape(), c.options.integer[0]);
    for_elements(y.count, [=](std::int64_t i) {
      real const* from = x.data + (i / s.inner) * s.extent * s.inner + i % s.inner;
      arithmetic<real> sum = 0;
      for (std::int64_t t = 0; t < s.extent; ++t) sum += from[t * s.inner];
      y[i] = sum / static_cast<arithmetic<real>>(s.extent);
    });
  }
};

template <> struct kernel<op::mean_gradient, cpu> {
  template <class real> static void run(call const& c, tensor<real const> dy, tensor<real> dx) {
    detail::around const s(dx.shape(), c.options.integer[0]);
    for_elements(dx.count, [=](std::int64_t i) {
      dx[i] = dy[i / (s.extent * s.inner) * s.inner + i % s.inner] / static_cast<arithmetic<real>>(s.extent);
    });
  }
};

} // namespace constrain
