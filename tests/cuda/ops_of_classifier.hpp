#pragma once

#include "cuda/check_nodes.hpp"

namespace constrain::test {

/// Checks that the ops which only the classifier has were `seen`.
inline void check_ops_of_classifier(std::map<std::string, int>& seen) {
  for (auto const* name :
       {"mean", "mean_gradient", "multiply", "add", "copy", "dropout", "elementwise", "elementwise_gradient_bias",
        "soft_cap", "soft_cap_gradient", "regularized_cross_entropy", "regularized_cross_entropy_gradient", "update"}) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  }
}

} // namespace constrain::test
