#pragma once

#include "fixtures.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace constrain::test {

/// The gradient of the parameter `name` of `model`, from a fixture with the tensors "<prefix><name in Transformers>":
/// those of all layers, one after the other. Empty if the model's weight format has no such parameter.
template <class model>
std::vector<double> gradient_of_transformers(fixture const& results, std::string const& prefix, std::string_view name,
                                             int layers) {
  for (auto const& n : weight_format_of<model>::names) {
    if (n.name != name) continue;
    std::string const stored(n.stored);
    auto const star = stored.find('*');
    if (star == stored.npos) return results.reals(prefix + stored);
    std::vector<double> all;
    for (int layer = 0; layer < layers; ++layer) {
      auto const one = results.reals(prefix + stored.substr(0, star) + std::to_string(layer) + stored.substr(star + 1));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  return {};
}

/// Checks every gradient of a trainer against those of Transformers, relative to the tensor's norm. Without rotary
/// embeddings, a key's bias has no gradient by mathematics, since softmax does not see a constant that is added to a
/// row; therefore its gradient is compared absolutely. `prefix`: as in `gradient_of_transformers`.
template <class model, class trainer>
void check_gradients_of_transformers(trainer& t, fixture const& results, int layers, double bound,
                                     std::string const& prefix = "gradient.") {
  for (auto const& p : t.parameters()) {
    std::string const name(p.name);
    CAPTURE(name);
    std::vector<double> gradient(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span(gradient));
    auto const expected = gradient_of_transformers<model>(results, prefix, name, layers);
    REQUIRE(expected.size() == gradient.size());
    if (name == "block.key.bias") {
      for (std::size_t i = 0; i < gradient.size(); ++i) CHECK(std::abs(gradient[i] - expected[i]) < bound);
      continue;
    }
    double size = 0;
    for (double const x : expected) size += x * x;
    CHECK(size > 1e-6);
    CHECK(relative_error(gradient, expected) < bound);
  }
}

} // namespace constrain::test
