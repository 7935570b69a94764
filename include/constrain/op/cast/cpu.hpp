#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/cast/cast.hpp"

namespace constrain {

template <> struct kernel<op::cast, cpu> {
  template <class from, class to> static void run(call const&, tensor<from const> x, tensor<to> y) {
    for_elements(y.count, [=](std::int64_t i) { y[i] = x[i]; });
  }
};

} // namespace constrain
