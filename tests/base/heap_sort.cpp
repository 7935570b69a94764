#include "constrain/base/heap_sort.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ct = constrain;

TEST_CASE("heap_sort: every order of up to seven values with repetitions becomes sorted") {
  for (int size = 0; size <= 7; ++size) {
    std::vector<int> values;
    for (int i = 0; i < size; ++i) values.push_back(i / 2);
    do {
      auto sorted = values;
      ct::detail::heap_sort(sorted, [](int a, int b) { return a > b; });
      REQUIRE(std::is_sorted(sorted.rbegin(), sorted.rend()));
      REQUIRE(std::is_permutation(sorted.begin(), sorted.end(), values.begin()));
    } while (std::next_permutation(values.begin(), values.end()));
  }
}

TEST_CASE("heap_sort: values that cannot be copied cheaply, and positions by what they refer to") {
  std::vector<std::string> names{"wte.weight", "a name that is too long for the small buffer", "", "wpe.weight"};
  std::vector<std::uint32_t> order{0, 1, 2, 3};
  ct::detail::heap_sort(order, [&](std::uint32_t a, std::uint32_t b) { return names[a] < names[b]; });
  CHECK(order == std::vector<std::uint32_t>{2, 1, 3, 0});
  ct::detail::heap_sort(names, [](std::string const& a, std::string const& b) { return a < b; });
  CHECK(names ==
        std::vector<std::string>{"", "a name that is too long for the small buffer", "wpe.weight", "wte.weight"});
}
