#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

// Only the backward pass begins with it.
static_assert(ct::info_of<ct::op::constant_like>.gradient == nullptr);
static_assert(ct::info_of<ct::op::constant_like>.infer(types({f64(shape{})}), {}).outputs[0] == f64(shape{}));

TEST_CASE_TEMPLATE("constant: fills its output and does not read its input", real, float, double) {
  auto const options = ct::pack(ct::op::constant_like::options{.value = 2.5});
  array<real> y(shape(3, 5));
  call_kernel<ct::op::constant_like>(ct::call{options, no_parameters}, ct::tensor<real const>{}, y.out());
  for (auto x : y.values()) CHECK(x == real(2.5));
}

TEST_CASE_TEMPLATE("full_like: fills its output with a scalar of another type", real, float, double, ct::float16) {
  array<double> const s(shape{}, {0.1});
  array<real> y(shape(3, 5));
  call_kernel<ct::op::full_like>(plain, ct::tensor<real const>{}, s.in(), y.out());
  for (auto x : y.values()) CHECK(x == static_cast<real>(ct::arithmetic<real>(0.1)));
}
