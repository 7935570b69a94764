#pragma once

#include "constrain/op/add_layer_norm/cpu.hpp"
#include "constrain/op/dropout/cpu.hpp"
#include "constrain/op/dropout_add/dropout_add.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <> struct kernel<op::dropout_add, cpu> {
  template <class stored>
  static void run(call const& c, tensor<stored const> a, tensor<stored const> b, tensor<double const> probability,
                  tensor<stored> y) {
    dropout_elements(c, b, probability[0], y, [=](std::int64_t i, stored dropped) { return stored(a[i] + dropped); });
  }
};

template <> struct kernel<op::dropout_add_layer_norm, cpu> {
  template <class stored, class accumulate>
  static void run(call_of<op::dropout_add_layer_norm> const& c, tensor<stored const> a, tensor<stored const> b,
                  tensor<double const> probability, tensor<accumulate const> weight, tensor<accumulate const> bias,
                  tensor<stored> sum, tensor<stored> y, tensor<accumulate> mean, tensor<accumulate> rstd) {
    if (probability[0] == 0) return kernel<op::add_layer_norm, cpu>::run(c, a, b, weight, bias, sum, y, mean, rstd);
    kernel<op::dropout_add, cpu>::run(c, a, b, probability, sum);
    tensor<stored const> const x{sum.data, sum.shape_of, sum.count};
    kernel<op::layer_norm, cpu>::run(c, x, weight, bias, y, mean, rstd);
  }
};

} // namespace constrain
