#include "fixtures.hpp"

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>

// Parity with PyTorch on a small GPT-2: see tests/fixtures/README.md for how the numbers were made.

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 2, .heads = 4, .width = 64, .vocabulary = 97, .context = 16}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

double distance(std::span<double const> a, std::span<double const> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double norm(std::span<double const> a) {
  double sum = 0;
  for (double x : a) sum += x * x;
  return std::sqrt(sum);
}

std::vector<double> values_of(ct::tensor_view const& t) {
  std::vector<double> values(static_cast<std::size_t>(t.size()));
  t.copy_to(std::span<double>(values));
  return values;
}

// A bias of the keys adds the same to all scores of a query, which softmax ignores: its gradient is zero by
// mathematics. It is the middle third of this tensor, and held to an absolute bound.
constexpr std::string_view with_key_bias = "block.attention.qkv.bias";
constexpr std::size_t width = 64;

template <class trainer> void compare_with_pytorch(double relative, double zero, bool final_weights) {
  ct::test::fixture const weights("gpt2/weights.safetensors");
  ct::test::fixture const results("gpt2/results.safetensors");
  trainer t{{.learning_rate = 1e-3f, .weight_decay = 0.1f}};
  for (auto const& p : t.parameters()) {
    auto const initial = weights.reals(p.name);
    p.copy_from(std::span<double const>(initial));
  }
  auto const inputs = results.integers("inputs");
  auto const labels = results.integers("labels");
  auto const losses = results.reals("losses");
  auto const norms = results.reals("gradient_norms");
  std::size_t const size = 2 * 16;

  auto const logits = t.predict(std::span(inputs).first(size));
  std::vector<double> const ours(logits.logits.begin(), logits.logits.end());
  auto const theirs = results.reals("logits");
  REQUIRE(ours.size() == theirs.size());
  double const logits_error = distance(ours, theirs) / norm(theirs);
  CHECK(logits_error <= relative);

  double worst_gradient = 0, worst_loss = 0, worst_zero = 0;
  for (std::size_t step = 0; step < 10; ++step) {
    auto const r =
        t.step(t.batch(std::span(inputs).subspan(step * size, size), std::span(labels).subspan(step * size, size)));
    CAPTURE(step);
    worst_loss = std::max(worst_loss, std::abs(r.loss - losses[step]) / losses[step]);
    CHECK(std::abs(r.loss - losses[step]) <= relative * losses[step]);
    CHECK(std::abs(r.gradient_norm - norms[step]) <= relative * norms[step]);
    if (step > 0) continue;
    for (auto const& p : t.parameters()) {
      CAPTURE(std::string(p.name));
      auto gradient = values_of(t.gradient(p.name));
      auto expected = results.reals("gradient." + std::string(p.name));
      REQUIRE(gradient.size() == expected.size());
      if (p.name == with_key_bias)
        for (std::size_t layer = 0; layer < 2; ++layer)
          for (std::size_t i = width; i < 2 * width; ++i) {
            auto const k = layer * 3 * width + i;
            worst_zero = std::max(worst_zero, std::abs(gradient[k]));
            CHECK(std::abs(gradient[k]) <= zero);
            gradient[k] = expected[k] = 0;
          }
      worst_gradient = std::max(worst_gradient, distance(gradient, expected) / norm(expected));
      CHECK(distance(gradient, expected) <= relative * norm(expected));
    }
  }
  if (final_weights)
    for (auto const& p : t.parameters()) {
      CAPTURE(std::string(p.name));
      auto const expected = results.reals("final_norm." + std::string(p.name))[0];
      CHECK(std::abs(norm(values_of(p)) - expected) <= relative * expected);
    }
  std::printf("%s: logits %.1e, losses %.1e, gradients %.1e, key bias %.1e\n", trainer::policy_set::name().c_str(),
              logits_error, worst_loss, worst_gradient, worst_zero);
}

} // namespace

TEST_CASE("gpt2 equals PyTorch in double: logits, gradients, 10 AdamW steps") {
  compare_with_pytorch<ct::trainer<task, ct::precision::fp64>>(1e-10, 1e-12, true);
}

TEST_CASE("gpt2 equals PyTorch in single precision") {
  compare_with_pytorch<ct::trainer<task, ct::precision::fp32>>(1e-5, 1e-7, false);
}
