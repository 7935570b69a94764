#pragma once

#include "constrain/device/cuda/gemm.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/linear/linear.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Loop body of the kernel: adds the bias of y[i]'s column to y[i].
template <class stored, class accumulate> struct add_bias_elements {
  stored* y;
  accumulate const* bias;
  std::int64_t width;

  CT_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = y[i] + bias[i % width]; }
};

namespace detail {

// The extents of the layer's GEMMs: y = x weight^T, dx = dy weight, dweight = dy^T x. The arguments are tensors or
// their extents.
constexpr gemm_extents extents_of_linear(auto const& x, auto const& y) {
  return {y.rows(), y.features(), x.features()};
}
constexpr gemm_extents extents_of_input_gradient(auto const& dy, auto const& dx) {
  return {dx.rows(), dx.features(), dy.features()};
}
constexpr gemm_extents extents_of_weight_gradient(auto const& dy, auto const& x) {
  return {dy.features(), x.features(), dy.rows()};
}

} // namespace detail

template <class architecture> struct kernel<op::linear, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    auto const gemms = gemm_parts(transpose::no, transpose::yes, detail::extents_of_linear(in[0], out[0]));
    return {.scratch = gemm_workspace, .launches = in.size() == 3 ? gemms + 1 : gemms};
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> weight, tensor<stored> y) {
    gemm(c, transpose::no, transpose::yes, detail::extents_of_linear(x, y), x.data, weight.data, false, y.data);
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
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    auto const extents = detail::extents_of_input_gradient(in[0], out[0]);
    return {.scratch = gemm_workspace, .launches = gemm_parts(transpose::no, transpose::no, extents)};
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> weight, tensor<stored> dx) {
    gemm(c, transpose::no, transpose::no, detail::extents_of_input_gradient(dy, dx), dy.data, weight.data, false,
         dx.data);
  }
};

template <class architecture> struct kernel<op::linear_weight_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const&) {
    auto const extents = detail::extents_of_weight_gradient(in[0], in[1]);
    return {.scratch = gemm_workspace, .launches = gemm_parts(transpose::yes, transpose::no, extents)};
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate> dweight) {
    gemm(c, transpose::yes, transpose::no, detail::extents_of_weight_gradient(dy, x), dy.data, x.data, c.add_to(0),
         dweight.data);
  }
};

template <class architecture> struct kernel<op::linear_bias_gradient, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    return needs_of_sum_columns(in[0].rows(), in[0].features(), out[0].type);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<accumulate> dbias) {
    constexpr int pack = pack_of<stored>;
    cuda<architecture> const device;
    auto const rows = dy.rows(), columns = dy.features();
    if (takes_packs<stored>(columns, dy.data))
      sum_columns<pack>(device, c, elements_of_array<pack, stored, accumulate>{dy.data}, rows, columns, dbias.data,
                        c.add_to(0));
    else
      sum_columns<1>(device, c, elements_of_array<1, stored, accumulate>{dy.data}, rows, columns, dbias.data,
                     c.add_to(0));
  }
};

} // namespace constrain
