#pragma once

#include "constrain/op/dropout/cuda.cuh"
#include "constrain/op/dropout_add/dropout_add.hpp"
#include "constrain/op/layer_norm/cuda.cuh"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class architecture> struct kernel<op::dropout_add, cuda<architecture>> {
  template <class stored>
  static void run(call const& c, tensor<stored const> a, tensor<stored const> b, tensor<double const> probability,
                  tensor<stored> y) {
    run_dropout<true>(c, a.data, b, probability, y);
  }
};

template <class architecture> struct kernel<op::dropout_add_layer_norm, cuda<architecture>> {
  template <class stored, class accumulate>
  static void run(call_of<op::dropout_add_layer_norm> const& c, tensor<stored const> a, tensor<stored const> b,
                  tensor<double const> probability, tensor<accumulate const> weight, tensor<accumulate const> bias,
                  tensor<stored> sum, tensor<stored> y, tensor<accumulate> mean, tensor<accumulate> rstd) {
    detail::layer_norm_arrays<stored, accumulate> const arrays{a.data,   b.data, weight.data, bias.data,
                                                               sum.data, y.data, mean.data,   rstd.data};
    detail::run_layer_norm(c, arrays, dropout_argument<stored>(c, b, probability), y, c.options.epsilon);
  }
};

} // namespace constrain
