#include "op/activation.hpp"

#include <cmath>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

// Both forms are x on the right and 0 on the left.
template <class functor, class real> void check_far_from_zero() {
  array<real> const x(shape(4), {-1e4, -30, 30, 1e4}), dy(shape(4), {1, 1, 1, 1});
  array<real> y(shape(4)), dx(shape(4));
  call_kernel<ct::op::elementwise<functor>>(plain, x.in(), y.out());
  call_kernel<ct::op::elementwise_gradient<functor>>(plain, dy.in(), x.in(), dx.out());
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(y[i] - (i < 2 ? real(0) : x[i])) < 1e-30);
    CHECK(std::abs(dx[i] - (i < 2 ? real(0) : real(1))) < 1e-30);
  }
}

} // namespace

TEST_CASE("gelu: gradients of both forms") {
  check_gradients_of_activation<ct::gelu>();
  check_gradients_of_activation<ct::gelu_tanh>();
}

TEST_CASE_TEMPLATE("gelu: both forms as PyTorch", real, float, double) {
  check_against_pytorch<ct::op::gelu, real>("gelu");
  check_against_pytorch<ct::op::gelu_tanh, real>("gelu_tanh");
}

TEST_CASE_TEMPLATE("gelu: far from zero", real, float, double) {
  check_far_from_zero<ct::op::gelu, real>();
  check_far_from_zero<ct::op::gelu_tanh, real>();
}
