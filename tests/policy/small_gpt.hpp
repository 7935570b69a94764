#pragma once

#include <constrain/constrain.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace constrain::test {

/// A task for tests of policies: every role of a parameter, 3 layers, 16 tokens a micro-batch.
using small_gpt = task<gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 32, .context = 8}, causal_lm,
                       micro_batch{.sequences = 2}>;

/// A step on a batch that depends on `number` only.
template <class trainer> step_result step(trainer& t, int number) {
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(trainer::batch_tokens)), labels(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const k = i * 7 + static_cast<std::size_t>(number);
    inputs[i] = static_cast<std::int32_t>(k % 32), labels[i] = static_cast<std::int32_t>((k + 7) % 32);
  }
  return t.step(t.batch(inputs, labels));
}

/// The elements of a tensor.
inline std::vector<double> values(tensor_view const& view) {
  std::vector<double> all(static_cast<std::size_t>(view.size()));
  view.copy_to(std::span(all));
  return all;
}

/// The elements of every parameter.
template <class trainer> std::vector<std::vector<double>> weights(trainer const& t) {
  std::vector<std::vector<double>> all;
  for (auto const& p : t.parameters()) all.push_back(values(p));
  return all;
}

} // namespace constrain::test
