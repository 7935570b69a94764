#pragma once

#include "fixtures.hpp"

#include <constrain/constrain.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace constrain::test {

/// Trains the GPT-2 of gpt2/ in fp64 for ten steps, as tests/fixtures/gpt2_in_parts.py does, and compares the losses
/// with PyTorch's. Returns the largest difference of a weight, except biases of keys: the loss does not depend on them,
/// so that their gradients are rounding.
template <class optimizer>
double difference_from_pytorch(char const* file, typename optimizer::hyper const& hyper, double within) {
  using model = task<gpt2{.layers = 2, .heads = 4, .width = 64, .vocabulary = 97, .context = 16}, causal_lm,
                     micro_batch{.sequences = 2}>;
  fixture const weights("gpt2/weights.safetensors"), batches("gpt2/results.safetensors"), results(file);
  trainer<model, precision::fp64, optimizer> t{hyper};
  for (auto const& p : t.parameters()) {
    auto const initial = weights.reals(p.name);
    p.copy_from(std::span<double const>(initial));
  }
  auto const inputs = batches.integers("inputs"), labels = batches.integers("labels");
  auto const losses = results.reals("gpt2.losses");
  std::size_t const size = 2 * 16;
  for (std::size_t step = 0; step < 10; ++step) {
    auto const r =
        t.step(t.batch(std::span(inputs).subspan(step * size, size), std::span(labels).subspan(step * size, size)));
    CHECK(std::abs(r.loss - losses[step]) <= within * losses[step]);
  }
  double worst = 0;
  for (auto const& p : t.parameters()) {
    auto const expected = results.reals("gpt2." + std::string(p.name));
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (p.name != "block.attention.qkv.bias" || 97 * i / 64 % 3 != 1)
        worst = std::max(worst, std::abs(values[97 * i] - expected[i]));
  }
  return worst;
}

} // namespace constrain::test
