#pragma once

#include "constrain/op/elementwise/kernel.hpp"
#include "constrain/op/sum_parts/cpu.hpp"

namespace constrain::inline CONSTRAIN_VARIANT {

template <class functor> struct kernel<op::elementwise_gradient_bias<functor>, cpu> {
  using op = op::elementwise_gradient_bias<functor>;

  // The inputs are dy, then x and y, each only if the derivative uses it.
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored> dx, tensor<accumulate> dbias,
                  tensor<accumulate> partial) {
    run_rows(c, dx, dbias, partial, dy.data);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> saved, tensor<stored> dx,
                  tensor<accumulate> dbias, tensor<accumulate> partial) {
    run_rows(c, dx, dbias, partial, dy.data, saved.data);
  }
  template <class stored, class accumulate>
  static void run(call const& c, tensor<stored const> dy, tensor<stored const> x, tensor<stored const> y,
                  tensor<stored> dx, tensor<accumulate> dbias, tensor<accumulate> partial) {
    run_rows(c, dx, dbias, partial, dy.data, x.data, y.data);
  }

private:
  template <class stored, class accumulate, class... pointers>
  static void run_rows(call const& c, tensor<stored> dx, tensor<accumulate> dbias, tensor<accumulate> partial,
                       pointers... inputs) {
    for_row_parts(dx.rows(), dbias, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      run_part(c, dx, begin, end, dbias.data + part * dx.features(), partial, inputs...);
    });
  }
  template <class stored, class accumulate, class... pointers>
  static void run_part(call const& c, tensor<stored> dx, std::int64_t begin, std::int64_t end, accumulate* dbias,
                       tensor<accumulate> partial, pointers... inputs) {
    auto const width = dx.features(), rows = end - begin;
    parallel_for(op::chunks, [=](std::int64_t chunk) {
      accumulate* const sums = partial.data + chunk * width;
      for (std::int64_t i = 0; i < width; ++i) sums[i] = 0;
      for (auto row = begin + rows * chunk / op::chunks; row < begin + rows * (chunk + 1) / op::chunks; ++row) {
        auto const first = row * width;
        simd_loop(width, [=](std::int64_t i) {
          dx[first + i] = gradient_of<functor>{}(arithmetic<stored>(inputs[first + i])...);
        });
        simd_loop(width, [=](std::int64_t i) { sums[i] += dx[first + i]; });
      }
    });
    add_up_chunks(partial.data, op::chunks, width, width, dbias, c.add_to(1));
  }
};

} // namespace constrain
