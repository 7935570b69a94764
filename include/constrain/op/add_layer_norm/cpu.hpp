#pragma once

#include "constrain/op/add_layer_norm/add_layer_norm.hpp"
#include "constrain/op/layer_norm/cpu.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::add_layer_norm, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::add_layer_norm> const& c, tensor<stored const> a, tensor<stored const> b,
                  tensor<accumulate const> weight, tensor<accumulate const> bias, tensor<stored> sum, tensor<stored> y,
                  tensor<accumulate> mean, tensor<accumulate> rstd) {
    auto const width = sum.features();
    auto const epsilon = static_cast<accumulate>(c.options.epsilon);
    parallel_chunks(sum.rows(), 8, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        auto const first = row * width;
        simd_loop(width, [=](std::int64_t i) { sum[first + i] = a[first + i] + b[first + i]; });
        // Reads the stored, rounded sum, as the unfused layer_norm does, so that the results are bit-identical.
        layer_norm_row<stored>(sum.data + first, width, weight.data, bias.data, epsilon, y.data + first, mean[row],
                               rstd[row]);
      }
    });
  }
};

template <> struct kernel<op::layer_norm_gradient_add, cpu> {
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dresidual, tensor<stored const> dy, tensor<stored const> x,
                  tensor<accumulate const> weight, tensor<accumulate const> mean, tensor<accumulate const> rstd,
                  tensor<stored> dx, tensor<accumulate> dweight, tensor<accumulate> dbias, tensor<accumulate> partial) {
    layer_norm_rows_gradient(c, dy, x, weight, mean, rstd, dx, dweight, dbias, partial,
                             [=](std::int64_t i, accumulate g) { return dresidual[i] + g; });
  }
};

} // namespace constrain
