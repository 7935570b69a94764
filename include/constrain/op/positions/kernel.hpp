#pragma once

#include "constrain/device/elements.hpp"
#include "constrain/op/positions/positions.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class real> struct positions_elements {
  real const* x;
  real const* table;
  real* y;
  std::int64_t plane; // of one sequence

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = x[i] + table[i % plane]; }
};

template <class device> struct kernel<op::positions, device> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real const> table, tensor<real> y) {
    auto const plane = x.shape().extent[1] * x.features();
    for_elements(device{}, c, y.count, positions_elements<real>{x.data, table.data, y.data, plane});
  }
};

template <class real, class sum_type> struct positions_gradient_elements {
  real const* dy;
  sum_type* dtable;
  std::int64_t sequences, plane;
  bool add;

  CT_HOST_DEVICE void operator()(std::int64_t i) const {
    sum_type sum = add ? dtable[i] : sum_type(0);
    if (i < plane)
      for (std::int64_t b = 0; b < sequences; ++b) sum += dy[b * plane + i];
    dtable[i] = sum;
  }
};

template <class device> struct kernel<op::positions_gradient, device> {
  template <class real, class sum_type> static void run(call const& c, tensor<real const> dy, tensor<sum_type> dtable) {
    auto const plane = dy.shape().extent[1] * dy.features();
    for_elements(device{}, c, dtable.count,
                 positions_gradient_elements<real, sum_type>{dy.data, dtable.data, dy.shape().extent[0], plane, c.add_to(0)});
  }
};

} // namespace constrain
