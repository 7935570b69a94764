#pragma once

#include "constrain/device/cuda/gemm.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/linear/linear.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: y[i] += the bias of the column of y[i].
template <class stored, class accumulate> struct add_bias_elements {
  stored* y;
  accumulate const* bias;
  std::int64_t width;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = y[i] + bias[i % width]; }
};

template <class architecture> struct kernel<op::linear, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    return {.scratch = gemm_workspace, .launches = in.size() == 3 ? 2 : 1};
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> weight, tensor<stored> y) {
    gemm(c, transpose::no, transpose::yes, y.rows(), y.features(), x.features(), x.data, weight.data, false, y.data);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> weight, tensor<accumulate const> bias,
                  tensor<stored> y) {
    run(c, x, weight, y);
    for_elements(cuda<architecture>{}, c, y.count,
                 add_bias_elements<stored, accumulate>{y.data, bias.data, y.features()});
  }
};

template <class architecture> struct kernel<op::linear_input_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) {
    return {.scratch = gemm_workspace};
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> weight, tensor<stored> dx) {
    gemm(c, transpose::no, transpose::no, dx.rows(), dx.features(), dy.features(), dy.data, weight.data, false,
         dx.data);
  }
};

template <class architecture> struct kernel<op::linear_weight_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const&, operand_extents const&) {
    return {.scratch = gemm_workspace};
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate> dweight) {
    gemm(c, transpose::yes, transpose::no, dy.features(), x.features(), dy.rows(), dy.data, x.data, c.add_to(0),
         dweight.data);
  }
};

template <class architecture> struct kernel<op::linear_bias_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    return needs_of_sum_rows(in[0].rows(), in[0].features(), out[0].type);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<accumulate> dbias) {
    sum_rows(cuda<architecture>{}, c, dy.data, dy.rows(), dy.features(), dbias.data, c.add_to(0));
  }
};

} // namespace constrain
