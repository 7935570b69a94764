#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain {

template <class functor> struct kernel<op::elementwise<functor>, cpu> {
  template <class real> static void run(call const&, tensor<real const> x, tensor<real> y) {
    for_elements(y.count, [=](std::int64_t i) { y[i] = functor::forward(arithmetic<real>(x[i])); });
  }
};

template <class functor> struct kernel<op::elementwise_gradient<functor>, cpu> {
  using op = op::elementwise_gradient<functor>;

  template <class real>
  static void run(call const&, tensor<real const> dy, tensor<real const> x, tensor<real const> y, tensor<real> dx) {
    for_elements(dx.count, [=](std::int64_t i) { dx[i] = functor::gradient(arithmetic<real>(x[i]), arithmetic<real>(y[i]), arithmetic<real>(dy[i])); });
  }
  template <class real> static void run(call const&, tensor<real const> dy, tensor<real const> kept, tensor<real> dx) {
    if constexpr (op::uses_input)
      for_elements(dx.count, [=](std::int64_t i) { dx[i] = functor::gradient(arithmetic<real>(kept[i]), arithmetic<real>(0), arithmetic<real>(dy[i])); });
    else
      for_elements(dx.count, [=](std::int64_t i) { dx[i] = functor::gradient(arithmetic<real>(0), arithmetic<real>(kept[i]), arithmetic<real>(dy[i])); });
  }
  template <class real> static void run(call const&, tensor<real const> dy, tensor<real> dx) {
    for_elements(dx.count, [=](std::int64_t i) { dx[i] = functor::gradient(arithmetic<real>(0), arithmetic<real>(0), arithmetic<real>(dy[i])); });
  }
};

} // namespace constrain
