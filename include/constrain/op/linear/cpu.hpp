#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/cpu/gemm.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/op/linear/linear.hpp"
#include "constrain/op/sum_parts/cpu.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::linear, cpu> {
  template <class stored>
  static void run(call const&, tensor<stored const> x, tensor<stored const> weight, tensor<stored> y) {
    gemm(transpose::no, transpose::yes, y.rows(), y.features(), x.features(), 1, x.data, x.features(), weight.data,
         x.features(), 0, y.data, y.row_stride());
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> x, tensor<stored const> weight, tensor<accumulate const> bias,
                  tensor<stored> y) {
    run(c, x, weight, y);
    auto const width = y.features(), stride = y.row_stride();
    parallel_chunks(y.rows(), 16, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        stored* to = y.data + row * stride;
        simd_loop(width, [=](std::int64_t i) { to[i] = to[i] + bias[i]; });
      }
    });
  }
};

template <> struct kernel<op::linear_input_gradient, cpu> {
  template <class stored>
  static void run(call const&, tensor<stored const> dy, tensor<stored const> weight, tensor<stored> dx) {
    gemm(transpose::no, transpose::no, dx.rows(), dx.features(), dy.features(), 1, dy.data, dy.row_stride(),
         weight.data, dx.features(), 0, dx.data, dx.features());
  }
};

template <> struct kernel<op::linear_weight_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<accumulate> dweight) {
    gemm(transpose::yes, transpose::no, dy.features(), x.features(), dy.rows(), 1, dy.data, dy.row_stride(), x.data,
         x.features(), c.add_to(0) ? 1 : 0, dweight.data, x.features());
  }
};

template <> struct kernel<op::linear_bias_gradient, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<accumulate> dbias) {
    auto const width = dy.features(), stride = dy.row_stride();
    for_row_parts(dy.rows(), dbias, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      sum_rows(dy.data + begin * stride, end - begin, width, dbias.data + part * width, c.add_to(0), stride);
    });
  }
};

} // namespace constrain
