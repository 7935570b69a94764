#pragma once

#include "constrain/device/cpu/elements.hpp"
#include "constrain/device/cpu/reduce.hpp"
#include "constrain/op/elementwise/elementwise.hpp"

namespace constrain {

template <class functor> struct kernel<op::elementwise<functor>, cpu> {
  template <class real> static void run(call const&, tensor<real const> x, tensor<real> y) {
    for_elements(y.count, [=](std::int64_t i) { y[i] = functor::forward(arithmetic<real>(x[i])); });
  }
};

template <class functor> struct kernel<op::elementwise_gradient<functor>, cpu> {
  using op = op::elementwise_gradient<functor>;

  /// Element i of dx, from dy and what is kept of x and y.
  template <class real>
  static auto element(std::int64_t i, tensor<real const> dy, tensor<real const> x, tensor<real const> y) {
    return functor::gradient(arithmetic<real>(x[i]), arithmetic<real>(y[i]), arithmetic<real>(dy[i]));
  }
  template <class real> static auto element(std::int64_t i, tensor<real const> dy, tensor<real const> kept) {
    if constexpr (op::uses_input) return functor::gradient(arithmetic<real>(kept[i]), arithmetic<real>(0), arithmetic<real>(dy[i]));
    else return functor::gradient(arithmetic<real>(0), arithmetic<real>(kept[i]), arithmetic<real>(dy[i]));
  }
  template <class real> static auto element(std::int64_t i, tensor<real const> dy) {
    return functor::gradient(arithmetic<real>(0), arithmetic<real>(0), arithmetic<real>(dy[i]));
  }

  template <class real>
  static void run(call const&, tensor<real const> dy, tensor<real const> x, tensor<real const> y, tensor<real> dx) {
    for_elements(dx.count, [=](std::int64_t i) { dx[i] = element(i, dy, x, y); });
  }
  template <class real> static void run(call const&, tensor<real const> dy, tensor<real const> kept, tensor<real> dx) {
    for_elements(dx.count, [=](std::int64_t i) { dx[i] = element(i, dy, kept); });
  }
  template <class real> static void run(call const&, tensor<real const> dy, tensor<real> dx) {
    for_elements(dx.count, [=](std::int64_t i) { dx[i] = element(i, dy); });
  }
};

template <class functor> struct kernel<op::elementwise_gradient_bias<functor>, cpu> {
  using derivative = kernel<op::elementwise_gradient<functor>, cpu>;

  template <class real, class sum>
  static void run(call const& c, tensor<real const> dy, tensor<real const> x, tensor<real const> y, tensor<real> dx,
                  tensor<sum> dbias, tensor<sum> partial) {
    run_rows(c, dx, dbias, partial, [=](std::int64_t i) { return derivative::element(i, dy, x, y); });
  }
  template <class real, class sum>
  static void run(call const& c, tensor<real const> dy, tensor<real const> kept, tensor<real> dx, tensor<sum> dbias,
                  tensor<sum> partial) {
    run_rows(c, dx, dbias, partial, [=](std::int64_t i) { return derivative::element(i, dy, kept); });
  }
  template <class real, class sum>
  static void run(call const& c, tensor<real const> dy, tensor<real> dx, tensor<sum> dbias, tensor<sum> partial) {
    run_rows(c, dx, dbias, partial, [=](std::int64_t i) { return derivative::element(i, dy); });
  }

private:
  template <class real, class sum, class function>
  static void run_rows(call const& c, tensor<real> dx, tensor<sum> dbias, tensor<sum> partial, function const& element) {
    auto const width = dx.features(), rows = dx.rows();
    constexpr auto chunks = op::elementwise_gradient_bias<functor>::chunks;
    parallel_for(chunks, [=](std::int64_t chunk) {
      sum* const sums = partial.data + chunk * width;
      for (std::int64_t i = 0; i < width; ++i) sums[i] = 0;
      for (std::int64_t row = rows * chunk / chunks; row < rows * (chunk + 1) / chunks; ++row) {
        auto const first = row * width;
        simd_loop(width, [=](std::int64_t i) { dx[first + i] = element(first + i); });
        simd_loop(width, [=](std::int64_t i) { sums[i] += dx[first + i]; });
      }
    });
    add_up_chunks(partial.data, chunks, width, width, dbias.data, c.add_to(1));
  }
};

} // namespace constrain
