#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/copy/copy.hpp"

namespace constrain {

template <> struct kernel<op::copy, cpu> {
  template <class from, class to> static void run(call const& c, tensor<from const> x, tensor<to> y) {
    if (c.add_to(0)) for_elements(y.count, [=](std::int64_t i) { y[i] = y[i] + x[i]; });
    else for_elements(y.count, [=](std::int64_t i) { y[i] = x[i]; });
  }
};

} // namespace constrain
