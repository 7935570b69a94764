#include "op/activation.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

TEST_CASE("silu: gradients") { check_gradients_of_activation<ct::silu>(); }

TEST_CASE_TEMPLATE("silu: as PyTorch", real, float, double) { check_against_pytorch<ct::op::silu, real>("silu"); }

TEST_CASE_TEMPLATE("silu: finite far from zero", real, float, double) {
  array<real> const x(shape(5), {-1e30, -1000, 0, 1000, 1e30}), dy(shape(5), {1, 1, 1, 1, 1});
  array<real> y(shape(5)), dx(shape(5));
  call_kernel<ct::op::elementwise<ct::op::silu>>(plain, x.in(), y.out());
  call_kernel<ct::op::elementwise_gradient<ct::op::silu>>(plain, dy.in(), x.in(), dx.out());
  real const expected_y[] = {0, 0, 0, 1000, real(1e30)}, expected_dx[] = {0, 0, real(0.5), 1, 1};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(y[i] == doctest::Approx(static_cast<double>(expected_y[i])));
    CHECK(dx[i] == doctest::Approx(static_cast<double>(expected_dx[i])));
  }
}
