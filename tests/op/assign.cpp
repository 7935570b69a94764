#include "op/call_kernel.hpp"

#include <doctest/doctest.h>

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using assign = ct::op::assign;
constexpr auto operands = types({f32(shape(5, 1000)), f64(shape(2))});
static_assert(ct::info_of<assign>.gradient == nullptr && ct::info_of<assign>.guarded);
static_assert(assign::infer(operands, {.to = ct::dtype::bf16}).outputs[0] ==
              ct::operand_type{ct::dtype::bf16, shape(5, 1000)});
// Element by element, so each rank can store its shard.
static_assert(ct::info_of<assign>.layouts.by_elements() && ct::info_of<assign>.layouts.inputs.elements == 0b1);

template <class to> array<to> assigned(double scale, array<to> target) {
  array<float> const source(shape(3), {1.5f, -2, 3});
  array<double> const clip(shape(2), {4, scale});
  ct::attributes const options = ct::pack(assign::options{.to = ct::dtype_of<to>});
  call_kernel<assign>(ct::call{options, no_parameters}, source.in(), clip.in(), target.out());
  return target;
}

} // namespace

TEST_CASE("assign stores the source in the target's type, whatever the scale") {
  for (double const scale : {1.0, 0.25, 1e-300}) {
    CHECK(assigned<float>(scale, array<float>(shape(3))).values() == std::vector<float>{1.5f, -2, 3});
    CHECK(assigned<double>(scale, array<double>(shape(3))).values() == std::vector<double>{1.5, -2, 3});
  }
}

TEST_CASE("with a scale of 0 the target keeps its bytes") {
  CHECK(assigned<float>(0, array<float>(shape(3), {7, 8, 9})).values() == std::vector<float>{7, 8, 9});
}
