#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/multiply/multiply.hpp"

namespace constrain {

template <> struct kernel<op::multiply, cpu> {
  template <class real> static void run(call const&, tensor<real const> a, tensor<real const> b, tensor<real> y) {
    for_elements(y.count, [=](std::int64_t i) { y[i] = a[i] * b[i]; });
  }
};

} // namespace constrain
