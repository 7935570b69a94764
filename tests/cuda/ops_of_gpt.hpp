#pragma once

#include "cuda/check_nodes.hpp"

#include <initializer_list>

namespace constrain::test {

/// Checks that the ops of every GPT, and those that are `named`, were `seen`.
inline void check_ops_of_gpt(std::map<std::string, int>& seen, std::initializer_list<char const*> named = {}) {
  auto const check = [&](char const* name) {
    CAPTURE(std::string(name));
    CHECK(seen[name] > 0);
  };
  for (auto const* name : named) check(name);
  for (auto const* name : {"linear",
                           "linear_input_gradient",
                           "linear_weight_gradient",
                           "linear_bias_gradient",
                           "flash_attention",
                           "flash_attention_gradient",
                           "layer_norm",
                           "layer_norm_gradient",
                           "layer_norm_gradient_add",
                           "sum_parts",
                           "add_layer_norm",
                           "dropout_add",
                           "dropout_add_layer_norm",
                           "dropout_bias_gradient",
                           "embedding",
                           "embedding_gradient",
                           "position_embedding",
                           "position_embedding_gradient",
                           "elementwise",
                           "elementwise_gradient_bias",
                           "cross_entropy",
                           "cross_entropy_and_gradient",
                           "correct_predictions",
                           "add",
                           "gradient_norm_squared",
                           "clip_coefficient",
                           "update"})
    check(name);
}

} // namespace constrain::test
