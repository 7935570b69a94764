#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <cmath>
#include <limits>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

// The op comes after the gradients, so it has none.
static_assert(ct::info_of<ct::op::tensor_scale>.gradient == nullptr);

namespace {

struct result {
  double norm, scale;
};

/// Calls the kernel for gradient `index` of three; `adds` as for the first or a later call of a run.
result call(double squared_norm, std::int64_t index, bool adds, array<double>& squares) {
  array<double> const one(shape(1), {squared_norm});
  array<double> norm_and_scale(shape(2));
  ct::attributes const options = ct::pack(ct::op::tensor_scale::options{.index = index, .gradients = 3});
  ct::call c{options, no_parameters};
  c.adds = adds ? 0b10 : 0;
  call_kernel<ct::op::tensor_scale>(c, one.in(), norm_and_scale.out(), squares.out());
  return {norm_and_scale[0], norm_and_scale[1]};
}

} // namespace

TEST_CASE("tensor_scale: the scale of a finite norm is 1, and squared norms add up per gradient") {
  array<double> squares(shape(3), {7, 7, 7});
  auto const first = call(9, 1, false, squares);
  CHECK(first.norm == 3);
  CHECK(first.scale == 1);
  CHECK((squares[0] == 0 && squares[1] == 9 && squares[2] == 0));
  auto const second = call(16, 1, true, squares);
  CHECK(second.norm == 4);
  CHECK((squares[0] == 0 && squares[1] == 25 && squares[2] == 0));
}

TEST_CASE("tensor_scale: the scale is 0 if the norm is not finite") {
  array<double> squares(shape(3));
  auto const infinite = call(std::numeric_limits<double>::infinity(), 0, false, squares);
  CHECK(infinite.scale == 0);
  CHECK(std::isinf(infinite.norm));
  auto const none = call(std::numeric_limits<double>::quiet_NaN(), 2, true, squares);
  CHECK(none.scale == 0);
  CHECK(std::isnan(none.norm));
  CHECK((std::isinf(squares[0]) && std::isnan(squares[2])));
}
