#pragma once

#include "constrain/device/cuda/reduce.cuh"
#include "constrain/op/elementwise/kernel.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

/// The argument `f` of `sum_columns` that computes and stores n consecutive elements of dx, and passes the rounded
/// elements on to the sums. `input`: pointers to dy, then x and y, each only if the derivative uses it.
template <int n, class functor, class stored, int inputs> struct gradient_packs {
  stored const* input[inputs];
  stored* dx;
  std::int64_t width;

  /// The inputs at the n elements.
  struct loaded {
    stored_pack<n, stored> packs[inputs];
  };
  /// Loads the n elements of each input from this row and column on.
  __device__ loaded load(std::int64_t row, std::int64_t column) const {
    loaded result;
    CT_UNROLL
    for (int k = 0; k < inputs; ++k) result.packs[k] = load_stored<n>(input[k] + row * width + column);
    return result;
  }
  __device__ void operator()(loaded const& from, std::int64_t row, std::int64_t column,
                             arithmetic<stored> (&values)[n]) const {
    arithmetic<stored> elements[inputs][n];
    CT_UNROLL
    for (int k = 0; k < inputs; ++k) from.packs[k].unpack(elements[k]);
    CT_UNROLL
    for (int j = 0; j < n; ++j) {
      gradient_of<functor> const gradient;
      if constexpr (inputs == 1) values[j] = gradient(elements[0][j]);
      else if constexpr (inputs == 2) values[j] = gradient(elements[0][j], elements[1][j]);
      else values[j] = gradient(elements[0][j], elements[1][j], elements[2][j]);
    }
    auto const rounded = rounded_pack<stored>(values);
    store_stored(rounded, dx + row * width + column);
    rounded.unpack(values);
  }
};

template <class functor, class architecture> struct kernel<op::elementwise_gradient_bias<functor>, cuda<architecture>> {
  static constexpr kernel_needs needs_of(operand_extents const& in, operand_extents const& out) {
    return needs_of_sum_columns(in[0].rows(), in[0].features(), out[1]);
  }
  // The inputs are dy, then x and y, each only if the derivative uses it.
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored> dx, tensor<accumulate> dbias,
                  tensor<accumulate>) {
    run_columns(c, dx, dbias, dy.data);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> saved, tensor<stored> dx,
                  tensor<accumulate> dbias, tensor<accumulate>) {
    run_columns(c, dx, dbias, dy.data, saved.data);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<stored const> y,
                  tensor<stored> dx, tensor<accumulate> dbias, tensor<accumulate>) {
    run_columns(c, dx, dbias, dy.data, x.data, y.data);
  }

private:
  template <class stored, class accumulate, class... pointers>
  static void run_columns(call const& c, tensor<stored> dx, tensor<accumulate> dbias, pointers... inputs) {
    auto const sum = [&]<int n>(std::integral_constant<int, n>) {
      gradient_packs<n, functor, stored, sizeof...(inputs)> const packs{{inputs...}, dx.data, dx.features()};
      sum_columns<n>(c, packs, dx.rows(), dx.features(), dbias, c.add_to(1));
    };
    with_packs(dx.features(), sum, dx.data, inputs...);
  }
};

} // namespace constrain
