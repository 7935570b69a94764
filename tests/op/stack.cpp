#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::stack;
static_assert(rule::infer(types({f32(shape(4, 5))}), {.iterations = 3}).outputs[0] == f32(shape(12, 5)));
static_assert(rule::infer(types({f32(shape(4))}), {.iterations = 2}).outputs[0] == f32(shape(8)));
// Only a pass behind the one that differentiates inserts it.
static_assert(ct::info_of<rule>.gradient == nullptr);

} // namespace

TEST_CASE("stack: the instances of all iterations, in order") {
  // Behind the loop, a call works on all instances together.
  array<float> const instances(shape(3, 2, 2), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  shape const one(2, 2);
  array<float> y(shape(6, 2));
  call_kernel<rule>(ct::call{ct::pack(rule::options{3}), no_parameters},
                    ct::tensor<float const>{instances.in().data, &one, 12}, y.out());
  CHECK(y.values() == instances.values());
}
