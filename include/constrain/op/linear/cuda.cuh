#pragma once

#include "constrain/device/cuda/gemm.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/linear/linear.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class real, class bias_type> struct add_bias_elements {
  real* y;
  bias_type const* bias;
  std::int64_t width;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = y[i] + bias[i % width]; }
};

template <class architecture> struct kernel<op::linear, cuda<architecture>> {
  template <class real> static void run(call const& c, tensor<real const> x, tensor<real const> weight, tensor<real> y) {
    gemm(*c.numbers.queue, transpose::no, transpose::yes, y.rows(), y.features(), x.features(), x.data, weight.data, false, y.data);
  }
  template <class real, class bias_type>
  static void run(call const& c, tensor<real const> x, tensor<real const> weight, tensor<bias_type const> bias, tensor<real> y) {
    run(c, x, weight, y);
    for_elements(cuda<architecture>{}, c, y.count, add_bias_elements<real, bias_type>{y.data, bias.data, y.features()});
  }
};

template <class architecture> struct kernel<op::linear_input_gradient, cuda<architecture>> {
  template <class real> static void run(call const& c, tensor<real const> dy, tensor<real const> weight, tensor<real> dx) {
    gemm(*c.numbers.queue, transpose::no, transpose::no, dx.rows(), dx.features(), dy.features(), dy.data, weight.data, false, dx.data);
  }
};

template <class architecture> struct kernel<op::linear_weight_gradient, cuda<architecture>> {
  template <class real, class sum>
  static void run(call const& c, tensor<real const> dy, tensor<real const> x, tensor<sum> dweight) {
    gemm(*c.numbers.queue, transpose::yes, transpose::no, dy.features(), x.features(), dy.rows(), dy.data, x.data, c.add_to(0),
         dweight.data);
  }
};

template <class architecture> struct kernel<op::linear_bias_gradient, cuda<architecture>> {
  template <class real, class sum> static void run(call const& c, tensor<real const> dy, tensor<sum> dbias) {
    sum_rows(cuda<architecture>{}, c, dy.data, dy.rows(), dy.features(), dbias.data, c.add_to(0));
  }
};

} // namespace constrain
