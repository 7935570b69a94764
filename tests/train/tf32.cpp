#include "policy/small_gpt.hpp"

#include <doctest/doctest.h>

#include <cmath>

// The GEMMs of layers in TF32; tests/op/round_to_tf32.cpp has the rounding.

namespace ct = constrain;
using namespace constrain::test;

namespace {

using tf32 = ct::precision::tf32;
template <class... policies> using trainer = ct::trainer<small_gpt, policies...>;
static_assert(trainer<tf32>::memory.weights == trainer<>::memory.weights);
static_assert(trainer<tf32>::memory.optimizer_state == trainer<>::memory.optimizer_state);

// A layer whose operands have few bits: rounding does not change them.
struct one_layer {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 8, .width = 4}), 8, {.bias = false});
  }
};
using layer_task = ct::task<one_layer{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>;

} // namespace

TEST_CASE("tf32: trains nearly as fp32, and not with the same bits") {
  trainer<> exact{{.learning_rate = 3e-3f}};
  trainer<tf32> t{{.learning_rate = 3e-3f}};
  double first = 0, losses[2]{};
  for (int i = 0; i < 60; ++i) {
    losses[0] = step(exact, i % 7).loss, losses[1] = step(t, i % 7).loss;
    if (i == 0) first = losses[0];
  }
  MESSAGE(losses[1] << " in TF32, " << losses[0] << " in fp32, " << first << " at first");
  CHECK(losses[1] != losses[0]);
  CHECK(std::abs(losses[1] - losses[0]) <= 0.02 * (first - losses[0]));
}

TEST_CASE("tf32: bit-identical with recomputation and fusion") {
  trainer<tf32> t;
  trainer<tf32, ct::checkpoint::every<2>> segments;
  trainer<tf32, ct::fusion::none> separate;
  for (int i = 0; i < 4; ++i) step(t, i), step(segments, i), step(separate, i);
  CHECK(weights(segments) == weights(t));
  double apart = 0;
  auto const a = weights(t), b = weights(separate);
  for (std::size_t p = 0; p < a.size(); ++p)
    for (std::size_t k = 0; k < a[p].size(); ++k) apart = std::max(apart, std::abs(a[p][k] - b[p][k]));
  CHECK(apart < 1e-3);
}

TEST_CASE("tf32: factors of few bits give the bits of fp32, others do not") {
  ct::trainer<layer_task, tf32> t;
  ct::trainer<layer_task> exact;
  std::int32_t const tokens[] = {0, 3, 5, 7};
  CHECK(t.predict(tokens).logits != exact.predict(tokens).logits);
  for (std::size_t p = 0; p < 2; ++p) {
    auto few = values(exact.parameters()[p]);
    for (auto& x : few) x = static_cast<double>(static_cast<float>(ct::bfloat16(static_cast<float>(x))));
    t.parameters()[p].copy_from(std::span<double const>(few));
    exact.parameters()[p].copy_from(std::span<double const>(few));
  }
  CHECK(t.predict(tokens).logits == exact.predict(tokens).logits);
}
