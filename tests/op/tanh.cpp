#include "op/activation.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

TEST_CASE("tanh: gradients") { check_gradients_of_activation<ct::tanh>(); }

TEST_CASE_TEMPLATE("tanh: the function and its derivative", real, float, double) {
  auto const x = array<real>::random(shape(300), 1, 2), dy = array<real>::random(shape(300), 2);
  array<real> y(shape(300)), dx(shape(300));
  call_kernel<ct::op::elementwise<ct::op::tanh>>(plain, x.in(), y.out());
  call_kernel<ct::op::elementwise_gradient<ct::op::tanh>>(plain, dy.in(), y.in(), dx.out());
  for (std::size_t i = 0; i < 300; ++i) {
    double const t = std::tanh(static_cast<double>(x[i])), expected = static_cast<double>(dy[i]) * (1 - t * t);
    CHECK(std::abs(static_cast<double>(y[i]) - t) < tolerance<real>);
    CHECK(std::abs(static_cast<double>(dx[i]) - expected) < tolerance<real>);
  }
}

TEST_CASE_TEMPLATE("tanh: finite far from zero", real, float, double) {
  array<real> const x(shape(4), {-1e30, -100, 100, 1e30});
  array<real> y(shape(4));
  call_kernel<ct::op::elementwise<ct::op::tanh>>(plain, x.in(), y.out());
  CHECK(y.values() == std::vector<real>{-1, -1, 1, 1});
}
