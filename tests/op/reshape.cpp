#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::reshape;
static_assert(rule::infer(types({f32(shape(2, 6))}), {.to = shape(3, 2, 2)}).outputs[0] == f32(shape(3, 2, 2)));
static_assert(refuses<rule::elements_differ>(rule::infer(types({f32(shape(2, 6))}), {.to = shape(3, 2)}), 12, 6));
// The product of these extents overflows: the program refuses such a shape, not the op.
constexpr shape too_large(std::int64_t{1} << 40, std::int64_t{1} << 40);
static_assert(rule::infer(types({f32(shape(2, 6))}), {.to = too_large}).outputs[0] == f32(too_large));

// A reshape of a slice of columns, whose rows are not contiguous, and a reshape of a computed value.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("in", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 9);
    auto const columns = ct::slice(x, 2, 2, 6);
    auto const s = columns.shape();
    auto const narrow = ct::reshape(columns, shape(s.extent[0], 2 * s.extent[1], 3));
    auto const y = ct::reshape(ct::silu(ct::linear("mid", narrow, 3)), s) * columns;
    return ct::linear("head", y, 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>;

} // namespace

TEST_CASE("reshape: gradients") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>>();
}

TEST_CASE("reshape: the elements in their order") {
  array<float> const x(shape(2, 3), {1, 2, 3, 4, 5, 6});
  array<float> y(shape(3, 2));
  call_kernel<rule>(ct::call{ct::pack(rule::options{shape(3, 2)}), no_parameters}, x.in(), y.out());
  CHECK(y.values() == x.values());
}
