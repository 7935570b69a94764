#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/copy/copy.hpp"

namespace constrain {

template <> struct kernel<op::copy, cpu> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real> y) {
    if (c.add_to(0)) for_elements(y.count, [=](std::int64_t i) { y[i] += x[i]; });
    else for_elements(y.count, [=](std::int64_t i) { y[i] = x[i]; });
  }
};

} // namespace constrain
