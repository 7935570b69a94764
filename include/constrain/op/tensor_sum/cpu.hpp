#pragma once

#include "constrain/op/collective/cpu.hpp"
#include "constrain/op/tensor_sum/tensor_sum.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::tensor_sum, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored> y, tensor<stored> buffer) {
    if (x.data != y.data) for_elements(y.count, [=](std::int64_t i) { y[i] = x[i]; });
    detail::all_reduce(*c.parameters.tensor, y, buffer);
  }
  template <class stored, class bias_type>
  static void run(call const& c, tensor<stored const> x, tensor<bias_type const> b, tensor<stored> y,
                  tensor<stored> buffer) {
    run(c, x, y, buffer);
    auto const width = y.features();
    for_elements(y.count, [=](std::int64_t i) {
      y[i] = static_cast<stored>(static_cast<arithmetic<stored>>(y[i]) + static_cast<arithmetic<stored>>(b[i % width]));
    });
  }
};

template <> struct kernel<op::tensor_copy, cpu> {
  template <class stored> static void run(call const&, tensor<stored const> x, tensor<stored> y) {
    if (x.data != y.data) for_elements(y.count, [=](std::int64_t i) { y[i] = x[i]; });
  }
};

} // namespace constrain
