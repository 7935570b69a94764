#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/constant/constant.hpp"

namespace constrain {

template <> struct kernel<op::constant_like, cpu> {
  template <class real> static void run(call const& c, tensor<real const>, tensor<real> y) {
    auto const constant = static_cast<real>(c.options.real[0]);
    for_elements(y.count, [=](std::int64_t i) { y[i] = constant; });
  }
};

} // namespace constrain
