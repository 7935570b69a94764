#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::slice;
constexpr auto x_type = f32(shape(2, 5, 12));
static_assert(rule::infer(types({x_type}), {.dimension = 2, .begin = 4, .extent = 8}).outputs[0] ==
              f32(shape(2, 5, 8)));
static_assert(rule::infer(types({x_type}), {.dimension = 0, .begin = 1, .extent = 1}).outputs[0] ==
              f32(shape(1, 5, 12)));
static_assert(rule::infer(types({i32(shape(2, 5))}), {.dimension = 1, .begin = 0, .extent = 3}).outputs[0] ==
              i32(shape(2, 3)));
static_assert(refuses<rule::no_such_dimension>(rule::infer(types({x_type}), {.dimension = 3}), 3, 3));
static_assert(refuses<rule::no_such_dimension>(rule::infer(types({x_type}), {.dimension = -1}), 3, -1));
static_assert(refuses<rule::slice_is_empty>(rule::infer(types({x_type}), {.dimension = 1, .extent = 0}), 1, 0));
static_assert(refuses<rule::slice_is_empty>(rule::infer(types({x_type}), {.dimension = 1, .iterations = 0}), 1, 0));
static_assert(refuses<rule::slice_is_out_of_range>(rule::infer(types({x_type}), {.dimension = 1, .begin = -1}), 5, -1));
static_assert(refuses<rule::slice_is_out_of_range>(rule::infer(types({x_type}),
                                                               {.dimension = 1, .begin = 3, .extent = 3}),
                                                   5, 6));
// Numbers so large that their sum overflows.
constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
static_assert(refuses<rule::slice_is_out_of_range>(rule::infer(types({x_type}),
                                                               {.dimension = 1, .begin = huge, .extent = huge}),
                                                   5, huge));
static_assert(refuses<rule::slice_is_out_of_range>(rule::infer(types({x_type}),
                                                               {.dimension = 1, .begin = 2, .extent = huge - 2}),
                                                   5, huge));
static_assert(refuses<rule::slice_is_out_of_range>(rule::infer(types({x_type}),
                                                               {.dimension = 1, .begin = 2, .extent = huge}),
                                                   5, huge));

// Slices that overlap, leave elements out, are used twice and sliced again, along every dimension.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("in", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 9);
    auto const a = ct::slice(x, 2, 0, 4), b = ct::slice(x, 2, 2, 4); // overlap, and leave out the last 3
    auto const c = ct::slice(ct::slice(x, 2, 3, 5), 2, 1, 4);
    auto const first = ct::slice(a * b + c, 1, 0, 3), last = ct::slice(a * b, 1, 2, 3);
    return ct::linear("head", ct::concatenate({first * last, ct::slice(c, 1, 1, 2)}, 1), 5);
  }
};
// Slices of a weight and of a value from outside, in a repeat, tied and captured.
struct repeated {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const outside = ct::linear("in", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 8);
    auto const weight = ct::parameter(tokens, "shared.weight", shape(8, 4), ct::role::weight, {.stddev = 0.5});
    auto const x = ct::repeat("block", 3, ct::slice(outside, 2, 0, 4), [&](ct::value x) {
      auto const y = ct::linear(x, ct::slice(weight, 0, 0, 4));
      auto const z = ct::linear(ct::silu(y), ct::slice(weight, 0, 3, 4));
      return x + z * ct::slice(outside, 2, 3, 4);
    });
    return ct::linear("head", x + ct::slice(outside, 2, 4, 4), 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>;
using repeated_task = ct::task<repeated{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 3}>;

ct::attributes of(int dimension, std::int64_t begin, std::int64_t extent) {
  return ct::pack(rule::options{dimension, begin, extent});
}
// The elements are their indices.
array<float> numbered(shape s) {
  std::vector<float> values(static_cast<std::size_t>(s.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return {s, values};
}

} // namespace

TEST_CASE("slice: gradients of slices that overlap, leave out elements and are used twice") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<3>>();
}
TEST_CASE("slice: gradients in a repeat, of a weight and of a value from outside") {
  check_gradients<repeated_task>();
  check_gradients<repeated_task, ct::accumulate<2>, ct::checkpoint::every<2>>();
}

TEST_CASE("slice: elements along each dimension, of contiguous and of wider rows") {
  auto const x = numbered(shape(2, 3, 4));
  array<float> y(shape(2, 3, 2)), z(shape(2, 1, 4)), first(shape(1, 3, 4));
  call_kernel<rule>(ct::call{of(2, 1, 2), no_parameters}, x.in(), y.out());
  CHECK(y.values() == std::vector<float>{1, 2, 5, 6, 9, 10, /**/ 13, 14, 17, 18, 21, 22});
  call_kernel<rule>(ct::call{of(1, 2, 1), no_parameters}, x.in(), z.out());
  CHECK(z.values() == std::vector<float>{8, 9, 10, 11, 20, 21, 22, 23});
  call_kernel<rule>(ct::call{of(0, 1, 1), no_parameters}, x.in(), first.out());
  CHECK(first.values() == std::vector<float>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});

  // The columns 1 and 2 of x as an operand: rows of 2 elements, 4 apart.
  shape const narrow(2, 3, 2);
  ct::tensor<float const> const columns{x.in().data + 1, &narrow, narrow.elements(), 4};
  array<float> w(shape(2, 2, 2));
  call_kernel<rule>(ct::call{of(1, 1, 2), no_parameters}, columns, w.out());
  CHECK(w.values() == std::vector<float>{5, 6, 9, 10, 17, 18, 21, 22});
}

TEST_CASE("pad: the first write fills with zeros, later ones add to the slice") {
  array<float> const dy(shape(2, 1, 2), {1, 2, 3, 4});
  array<float> dx(shape(2, 3, 2));
  auto const attributes = ct::pack(ct::op::pad::options{.dimension = 1, .begin = 1, .extent = 3});
  ct::call c{attributes, no_parameters};
  call_kernel<ct::op::pad>(c, dy.in(), dx.out());
  CHECK(dx.values() == std::vector<float>{0, 0, 1, 2, 0, 0, /**/ 0, 0, 3, 4, 0, 0});
  c.adds = 1;
  call_kernel<ct::op::pad>(c, dy.in(), dx.out());
  CHECK(dx.values() == std::vector<float>{0, 0, 2, 4, 0, 0, /**/ 0, 0, 6, 8, 0, 0});
  // Columns of wider rows.
  shape const narrow(2, 1, 1);
  ct::tensor<float const> const column{dy.in().data + 1, &narrow, 2, 2};
  array<float> wide(shape(2, 1, 3));
  auto const last = ct::pack(ct::op::pad::options{.dimension = 2, .begin = 2, .extent = 3});
  call_kernel<ct::op::pad>(ct::call{last, no_parameters}, column, wide.out());
  CHECK(wide.values() == std::vector<float>{0, 0, 2, 0, 0, 4});
}
