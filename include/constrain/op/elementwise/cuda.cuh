#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/elementwise/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// Computes and stores n consecutive elements of dx, as `gradient_elements` does; their values, for `sum_columns`, are
/// the rounded elements.
template <int n, class functor, class stored> struct gradient_packs {
  using op = op::elementwise_gradient<functor>;
  using accumulate = arithmetic<stored>;
  stored const* dy;
  stored const* x;
  stored const* y;
  stored* dx;

  __device__ void operator()(std::int64_t i, accumulate (&values)[n]) const {
    accumulate at[n]{}, result[n]{};
    load_pack(dy + i, values);
    if constexpr (op::uses_input) load_pack(x + i, at);
    if constexpr (op::uses_output) load_pack(y + i, result);
    CT_UNROLL
    for (int j = 0; j < n; ++j) values[j] = stored(functor::gradient(at[j], result[j], values[j]));
    store_pack(values, dx + i);
  }
};

template <class functor, class architecture> struct kernel<op::elementwise_gradient_bias<functor>, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    return needs_of_sum_columns(in[0].rows(), in[0].features(), out[1].type);
  }
  // The inputs are dy, then those of x and y that the derivative uses.
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<stored const> y,
                  tensor<stored> dx, tensor<accumulate> dbias, tensor<accumulate>) {
    constexpr int pack = pack_of<stored>;
    cuda<architecture> const device;
    auto const rows = dx.rows(), columns = dx.features();
    if (takes_packs<stored>(columns, dy.data, x.data, y.data, dx.data))
      sum_columns<pack>(device, c, gradient_packs<pack, functor, stored>{dy.data, x.data, y.data, dx.data}, rows,
                        columns, dbias.data, c.add_to(1));
    else
      sum_columns<1>(device, c, gradient_packs<1, functor, stored>{dy.data, x.data, y.data, dx.data}, rows, columns,
                     dbias.data, c.add_to(1));
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> kept, tensor<stored> dx,
                  tensor<accumulate> dbias, tensor<accumulate> scratch) {
    if constexpr (op::derivative_uses_input<functor>()) run(c, dy, kept, {}, dx, dbias, scratch);
    else run(c, dy, {}, kept, dx, dbias, scratch);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored> dx, tensor<accumulate> dbias,
                  tensor<accumulate> scratch) {
    run(c, dy, {}, {}, dx, dbias, scratch);
  }
};

} // namespace constrain
