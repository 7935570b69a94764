#include "policy/tensor_clipping.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 32, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
template <class... policies> using trainer = ct::trainer<task, policies...>;
using fp64 = ct::precision::fp64;
static_assert(ct::is_policy<tensor_clipping<false>> && ct::has_own_pass<tensor_clipping<false>>);

template <class trainer> ct::step_result step(trainer& t) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = static_cast<std::int32_t>(i * 7 % 32), labels[i] = static_cast<std::int32_t>((i * 7 + 7) % 32);
  }
  return t.step(t.batch(inputs, labels));
}

/// A gradient for each tensor of the model: a parameter of a stack of layers has several.
using gradients = std::vector<std::vector<double>>;

/// Of the last step, divided by `scale`.
template <class trainer> gradients gradients_of(trainer& t, double scale = 1) {
  gradients all;
  for (auto const& p : t.parameters()) {
    std::vector<double> stack(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span(stack));
    auto const elements = p.shape().elements();
    for (auto begin = stack.begin(); begin != stack.end(); begin += elements) {
      all.emplace_back(begin, begin + elements);
      for (double& g : all.back()) g /= scale;
    }
  }
  return all;
}

double norm(std::vector<double> const& tensor) {
  double squares = 0;
  for (double g : tensor) squares += g * g;
  return std::sqrt(squares);
}

/// Of the first step without the policy, then clipped as the policy is defined.
template <class... policies> gradients expected(double limit) {
  trainer<policies...> t;
  step(t);
  auto all = gradients_of(t);
  for (auto& tensor : all) {
    double const factor = std::min(1.0, limit / norm(tensor));
    for (double& g : tensor) g *= factor;
  }
  return all;
}

double difference(gradients const& a, gradients const& b) {
  double most = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t t = 0; t < a.size(); ++t)
    for (std::size_t i = 0; i < a[t].size(); ++i) most = std::max(most, std::abs(a[t][i] - b[t][i]));
  return most;
}

} // namespace

TEST_CASE_TEMPLATE("each tensor's gradient has at most the norm that is set", clipping, tensor_clipping<false>,
                   tensor_clipping<true>) {
  trainer<clipping, fp64> t;
  double const limit = 0.02;
  t.set("tensor_norm", limit);
  double const total = step(t).gradient_norm;
  auto const clipped = gradients_of(t);
  CHECK(difference(clipped, expected<fp64>(limit)) < 1e-15);

  int at_the_limit = 0, below = 0;
  double squares = 0;
  for (auto const& tensor : clipped) {
    CHECK(norm(tensor) <= limit * (1 + 1e-12));
    (norm(tensor) < limit * (1 - 1e-12) ? below : at_the_limit) += 1;
    squares += norm(tensor) * norm(tensor);
  }
  CHECK(at_the_limit > 5);
  CHECK(below > 5);
  CHECK(total == doctest::Approx(std::sqrt(squares)).epsilon(1e-12)); // of what the update gets
}

TEST_CASE_TEMPLATE("once per step: with micro-batches, recomputation and a scaled loss", clipping,
                   tensor_clipping<false>, tensor_clipping<true>) {
  auto const clipped = [&]<class... policies>(double scale) {
    trainer<clipping, policies...> t;
    t.set("tensor_norm", 0.02);
    step(t);
    return gradients_of(t, scale);
  };
  using two = ct::accumulate<2>;
  using every = ct::checkpoint::every<2>;
  CHECK(difference(clipped.template operator()<fp64, two>(1), expected<fp64, two>(0.02)) < 1e-15);
  CHECK(difference(clipped.template operator()<fp64, every>(1), expected<fp64>(0.02)) < 1e-15);
  CHECK(difference(clipped.template operator()<fp64, two, every>(1), expected<fp64, two>(0.02)) < 1e-15);
  CHECK(difference(clipped.template operator()<ct::precision::fp16>(1), expected<fp64>(0.02)) < 1e-4);
}

TEST_CASE_TEMPLATE("a gradient that is not finite is not hidden", clipping, tensor_clipping<false>,
                   tensor_clipping<true>) {
  trainer<clipping> t;
  t.set("tensor_norm", 0.02);
  std::vector<float> weight(static_cast<std::size_t>(t.parameters()[0].size()), std::numeric_limits<float>::infinity());
  t.parameters()[0].copy_from(std::span<float const>(weight));
  CHECK(step(t).skipped);
}
