#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace constrain::test {

/// The values of the parameter `name`.
template <class trainer> std::vector<double> values_of(trainer const& t, std::string_view name) {
  std::vector<double> values;
  for (auto const& p : t.parameters())
    if (p.name == name) values.resize(static_cast<std::size_t>(p.size())), p.copy_to(std::span(values));
  REQUIRE_FALSE(values.empty());
  return values;
}

/// The values of all parameters, in their order.
template <class trainer> std::vector<double> values_of(trainer const& t) {
  std::vector<double> all;
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

} // namespace constrain::test
