#include "check_gradients.hpp"
#include "op/call_kernel.hpp"
#include "sentence.hpp"

namespace ct = constrain;
using namespace constrain::test;
using ct::shape;

namespace {

using rule = ct::op::concatenate;
constexpr auto a_type = f32(shape(2, 5, 3)), b_type = f32(shape(2, 5, 4));
static_assert(rule::infer(types({a_type, b_type, a_type}), {.dimension = 2}).outputs[0] == f32(shape(2, 5, 10)));
static_assert(rule::infer(types({a_type}), {.dimension = 0}).outputs[0] == a_type);
static_assert(refuses<rule::no_such_dimension>(rule::infer(types({a_type, b_type}), {.dimension = 3}), 3, 3));
static_assert(refuses<rule::values_do_not_fit>(rule::infer(types({a_type, b_type}), {.dimension = 1}), 0, 1));
static_assert(refuses<rule::values_do_not_fit>(rule::infer(types({a_type, f32(shape(2, 5))}), {.dimension = 0}), 0, 1));
static_assert(refuses<rule::values_do_not_fit>(rule::infer(types({a_type, a_type, i32(shape(2, 5, 3))}), {}), 0, 2));

// Along each dimension; one value twice, and one that is also read elsewhere.
struct model {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4});
    auto const a = ct::linear("a", x, 3), b = ct::silu(ct::linear("b", x, 2));
    auto const wide = ct::concatenate({a, b, a}, 2);
    auto const long_ = ct::concatenate({ct::slice(wide, 1, 2, 3), ct::gelu(ct::slice(wide, 1, 0, 2))}, 1);
    return ct::linear("head", ct::concatenate({long_, b * b, wide}, 2), 5);
  }
};
// Values that appear twice in a concatenation of concatenations; a repeat that reads a part of its initial value.
struct twice {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 7, .width = 4});
    auto const a = ct::linear("a", x, 2), b = ct::silu(ct::linear("b", x, 2));
    auto const y = ct::concatenate({ct::concatenate({a, a}, 2), ct::concatenate({b, b}, 2)}, 2);
    auto const z = ct::repeat("block", 3, ct::concatenate({a, b}, 2), [&](ct::value z) {
      return ct::concatenate({a, ct::silu(ct::linear("up", z, 2))}, 2);
    });
    return ct::linear("head", ct::concatenate({y, z}, 2), 5);
  }
};
// A sum of slices with one gradient.
struct summed {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::linear("x", ct::embedding("token", tokens, {.vocabulary = 7, .width = 4}), 12);
    auto const q = ct::slice(x, 2, 0, 4) + ct::slice(x, 2, 4, 4);
    return ct::linear("head", ct::self_attention(q, ct::slice(x, 2, 8, 4), ct::silu(q), {.heads = 2}), 5);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>;

} // namespace

TEST_CASE("concatenate: an empty list is refused in a sentence") {
  CHECK(sentence([] { ct::concatenate({}, 0); }) == "ct::concatenate: there are no values; pass at least one");
}

TEST_CASE("concatenate: gradients along each dimension") {
  check_gradients<task>();
  check_gradients<task, ct::accumulate<2>>();
}

TEST_CASE("concatenate: gradients of values that stand twice, and of slices that are added") {
  check_gradients<ct::task<twice{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
  check_gradients<ct::task<summed{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>>();
  check_gradients<ct::task<summed{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>,
                  ct::attention::reference, ct::accumulate<2>>();
}
TEST_CASE("concatenate: evaluation finds the values that training finds") {
  // Without a backward pass, fewer instances of a value are kept.
  ct::trainer<ct::task<twice{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 5}>, ct::precision::fp64> t;
  std::vector<std::int32_t> const inputs{0, 1, 2, 3, 4, 5, 6, 0, 1, 2}, labels{1, 2, 3, 4, 0, 1, 2, 3, 4, 0};
  auto const evaluated = t.evaluate(inputs, labels);
  CHECK(t.step(t.batch(inputs, labels)).loss == doctest::Approx(evaluated.loss).epsilon(1e-14));
}

TEST_CASE("concatenate: elements along each dimension, of contiguous and of wider rows") {
  array<float> const a(shape(2, 1, 2), {1, 2, 3, 4}), b(shape(2, 1, 1), {8, 9});
  array<float> wide(shape(2, 1, 3)), tall(shape(2, 2, 2)), both(shape(4, 1, 2));
  call_kernel<rule>(ct::call{ct::pack(rule::options{2}), no_parameters}, a.in(), b.in(), wide.out());
  CHECK(wide.values() == std::vector<float>{1, 2, 8, 3, 4, 9});
  call_kernel<rule>(ct::call{ct::pack(rule::options{1}), no_parameters}, a.in(), a.in(), tall.out());
  CHECK(tall.values() == std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4});
  call_kernel<rule>(ct::call{ct::pack(rule::options{0}), no_parameters}, a.in(), a.in(), both.out());
  CHECK(both.values() == std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4});

  shape const narrow(2, 1, 1);
  ct::tensor<float const> const column{a.in().data + 1, &narrow, 2, 2};
  array<float> pairs(shape(2, 1, 2));
  call_kernel<rule>(ct::call{ct::pack(rule::options{2}), no_parameters}, b.in(), column, pairs.out());
  CHECK(pairs.values() == std::vector<float>{8, 2, 9, 4});
  // The columns 1 and 2 of y, whose rows are 4 elements long.
  array<float> rows(shape(2, 1, 4), {0, 0, 0, 0, 0, 0, 0, 0});
  shape const two(2, 1, 2);
  call_kernel<rule>(ct::call{ct::pack(rule::options{2}), no_parameters}, b.in(), column,
                    ct::tensor<float>{rows.out().data + 1, &two, 4, 4});
  CHECK(rows.values() == std::vector<float>{0, 8, 2, 0, 0, 9, 4, 0});
}
