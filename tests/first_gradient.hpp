#pragma once

#include <constrain/constrain.hpp>

#include <span>
#include <vector>

namespace constrain::test {

/// The gradient of `parameter` in the first step of a trainer whose batches have 8 tokens and 8 labels below 4.
template <class task, class... policies> std::vector<double> first_gradient(char const* parameter) {
  trainer<task, policies...> t({}, {.seed = 3});
  std::vector<std::int32_t> const inputs{0, 1, 2, 3, 3, 2, 1, 0}, labels{1, 2, 3, 0, 0, 3, 2, 1};
  t.step(t.batch(inputs, labels));
  auto const gradient = t.gradient(parameter);
  std::vector<double> values(static_cast<std::size_t>(gradient.size()));
  gradient.copy_to(std::span(values));
  return values;
}

} // namespace constrain::test
