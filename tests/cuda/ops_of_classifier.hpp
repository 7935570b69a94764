#pragma once

#include "cuda/check_nodes.hpp"

#include <initializer_list>

namespace constrain::test {

/// Checks that the ops which only the classifier has, and those that are `named`, were `seen`.
inline void check_ops_of_classifier(std::map<std::string, int>& seen, std::initializer_list<char const*> named = {}) {
  auto const check = [&](char const* name) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  };
  for (auto const* name : named) check(name);
  for (auto const* name :
       {"mean", "mean_gradient", "multiply", "add", "copy", "dropout_add", "elementwise", "elementwise_gradient_bias",
        "soft_cap", "soft_cap_gradient", "cross_entropy_and_gradient", "class_counts", "update"})
    check(name);
}

} // namespace constrain::test
