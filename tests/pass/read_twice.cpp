#include "check_gradients.hpp"

// Values that one call reads at two inputs.

using namespace constrain;
using namespace constrain::test;

namespace {

// The addend of a sum is also the weight of the norm of the sum, with which `fuse` fuses the sum.
struct addend_is_weight {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 7, .width = 4});
    auto const v = silu(parameter(x, "v", shape(4), role::norm, {.constant = 1, .stddev = 0.5}));
    auto const u = silu(parameter(x, "u", shape(4), role::norm, {.stddev = 0.5}));
    auto const sum = v + u;
    auto const n = emit<op::layer_norm>({sum, v, parameter(x, "b", shape(4), role::norm, {.stddev = 0.5})});
    return linear("head", emit<op::layer_norm>({x, sum, n}), 7);
  }
};
using addend_task = task<addend_is_weight{}, causal_lm, micro_batch{.sequences = 1, .tokens = 4}>;

/// The similarities of all rows of a micro-batch.
struct similarities {
  constexpr value operator()(value tokens) const {
    auto const x = linear("up", embedding("token", tokens, {.vocabulary = 8, .width = 4}), 4);
    auto const rows = reshape(x, shape(x.shape().rows(), 4));
    return linear(rows, rows);
  }
};
struct nearest {
  constexpr value operator()(value logits, value labels) const { return cross_entropy(logits, labels); }
};
using similarity_task =
    task<similarities{}, nearest, micro_batch{.sequences = 8, .tokens = 1, .evaluation_sequences = 64}>;

} // namespace

TEST_CASE("in place: a sum does not overwrite an addend that the same call reads as a weight") {
  std::vector<std::int32_t> const inputs{0, 1, 2, 3}, labels{1, 2, 3, 0};
  trainer<addend_task> fused({}, {.seed = 3});
  trainer<addend_task, fusion::none> apart({}, {.seed = 3});
  auto const expected = apart.evaluate(inputs, labels).loss;
  CHECK(fused.evaluate(inputs, labels).loss == doctest::Approx(expected).epsilon(1e-6));
  CHECK(fused.step(fused.batch(inputs, labels)).loss == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("row loop: an operand that every row needs in full is not cut into chunks") {
  std::vector<std::int32_t> inputs(64), labels(64);
  for (int i = 0; i < 64; ++i) inputs[static_cast<std::size_t>(i)] = i % 8, labels[static_cast<std::size_t>(i)] = i % 7;
  trainer<similarity_task, fusion::all> in_chunks({}, {.seed = 3});
  trainer<similarity_task, fusion::none> whole({}, {.seed = 3});
  CHECK(in_chunks.evaluate(inputs, labels).loss == doctest::Approx(whole.evaluate(inputs, labels).loss).epsilon(1e-6));
}
