#pragma once

#include "constrain/device/cuda/gemm.cuh"
#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/linear/linear.hpp"

#include <algorithm>

namespace constrain::inline CONSTRAIN_VARIANT {

// y += bias, for layers whose GEMM cannot add the bias: y [rows, width], bias [width]. `stride`: elements from one row
// of y to the next. n: elements per access. Blocks with the same blockIdx.x handle the same 32 n columns; their warps
// take the rows in turn.
template <int n, class stored, class bias_type>
static __global__ void __launch_bounds__(cuda_threads)
    add_bias_kernel(stored* y, std::int64_t stride, bias_type const* bias, std::int64_t rows, std::int64_t width) {
  constexpr int warps = cuda_threads / 32;
  auto const column = (static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x % 32) * n;
  if (column >= width) return;
  arithmetic<bias_type> biases[n], values[n];
  load_pack(bias + column, biases);
  CT_KEEP_LOOP
  for (auto row = static_cast<std::int64_t>(blockIdx.y) * warps + threadIdx.x / 32; row < rows;
       row += static_cast<std::int64_t>(gridDim.y) * warps) {
    load_pack(y + row * stride + column, values);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] += biases[j];
    store_pack(values, y + row * stride + column);
  }
}

namespace detail {

// The extents of the layer's GEMMs: y = x weight^T, dx = dy weight, dweight = dy^T x. The arguments are tensors or
// their extents.
constexpr gemm_extents extents_of_linear(auto const& x, auto const& y) {
  return {.m = y.rows(), .n = y.features(), .k = x.features(), .ldc = y.row_stride()};
}
constexpr gemm_extents extents_of_input_gradient(auto const& dy, auto const& dx) {
  return {.m = dx.rows(), .n = dx.features(), .k = dy.features(), .lda = dy.row_stride()};
}
constexpr gemm_extents extents_of_weight_gradient(auto const& dy, auto const& x) {
  return {.m = dy.features(), .n = x.features(), .k = dy.rows(), .lda = dy.row_stride()};
}

} // namespace detail

template <class architecture> struct kernel<op::linear, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    auto const extents = detail::extents_of_linear(in[0], out[0]);
    auto const gemms = gemm_parts(transpose::no, transpose::yes, extents);
    bool const adds_bias = in.size() == 3 && !(in[2].type == out[0].type && gemm_adds_bias(extents, out[0].type));
    return {.scratch = gemm_workspace, .launches = adds_bias ? gemms + 1 : gemms};
  }
  template <class stored>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> weight, tensor<stored> y) {
    gemm(c, transpose::no, transpose::yes, detail::extents_of_linear(x, y), x.data, weight.data, false, y.data);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> weight, tensor<accumulate const> bias,
                  tensor<stored> y) {
    auto const extents = detail::extents_of_linear(x, y);
    if constexpr (std::is_same_v<stored, accumulate>)
      if (gemm_adds_bias(extents, dtype_of<stored>) && are_aligned(bias.data))
        return gemm(c, transpose::no, transpose::yes, extents, x.data, weight.data, false, y.data, bias.data);
    run(c, x, weight, y);
    auto const launch = [&](int n, auto* kernel) {
      // Each warp handles at most eight rows, unless the grid would be too large.
      auto const columns = static_cast<unsigned>((y.features() + 32 * n - 1) / (32 * n));
      auto const blocks = static_cast<unsigned>(std::min<std::int64_t>((y.rows() + 63) / 64, 65535));
      cuda_launch(*c.parameters.context, dim3(columns, blocks), cuda_threads, kernel, y.data, y.row_stride(), bias.data,
                  y.rows(), y.features());
    };
    constexpr int pack = pack_of<stored>;
    if (takes_packs<pack>(y.features(), bias.data) && takes_packs<pack>(y.row_stride(), y.data))
      launch(pack, &add_bias_kernel<pack, stored, accumulate>);
    else launch(1, &add_bias_kernel<1, stored, accumulate>);
  }

private:
  /// Whether the GEMM can add a bias that has the type of the result and is aligned. `type`: the type of the result.
  static constexpr bool gemm_adds_bias(gemm_extents const& extents, dtype type) {
    return allows_bias(transpose::no, transpose::yes, extents, size_of(type));
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
    return needs_of_sum_columns(in[0].rows(), in[0].features(), out[0]);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<accumulate> dbias) {
    constexpr int pack = pack_of<stored>;
    auto const rows = dy.rows(), columns = dy.features(), stride = dy.row_stride();
    if (columns % pack == 0 && takes_packs<pack>(stride, dy.data))
      sum_columns<pack>(c, elements_of_matrix<pack, stored, accumulate>{dy.data, stride}, rows, columns, dbias,
                        c.add_to(0));
    else
      sum_columns<1>(c, elements_of_matrix<1, stored, accumulate>{dy.data, stride}, rows, columns, dbias, c.add_to(0));
  }
};

} // namespace constrain
