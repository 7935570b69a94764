#pragma once

#include "cuda/tasks.hpp"

namespace constrain::test {

/// RMS normalization of rows of `width` elements, and `classes` logits of every sequence. With multiples of 8, kernels
/// access packs.
template <int width, int classes> struct root_mean_squares {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 23, .width = width});
    auto const y =
        repeat("block", 2, x, [](value z) { return z + linear("up", rms_norm("norm", z, {.epsilon = 1e-3}), width); });
    return linear("head", rms_norm("last", mean(y, axis::tokens)), classes);
  }
};
/// The focal loss with gamma = halves / 2. (Here, nvcc 13 does not compile options as a template argument.)
template <int halves> struct focal_objective {
  constexpr value operator()(value logits, value labels) const {
    return focal_loss(logits, labels, {.gamma = halves / 2.0});
  }
};
template <int width, int classes, int halves, int tokens>
using focal =
    task<root_mean_squares<width, classes>{}, focal_objective<halves>, micro_batch{.sequences = 3, .tokens = tokens}>;
template <int width, int classes, int tokens>
using normed = task<root_mean_squares<width, classes>{}, classification, micro_batch{.sequences = 3, .tokens = tokens}>;

/// Two matrices per layer, a tall one and a wide one.
template <int width, int hidden> struct two_matrices {
  constexpr value operator()(value tokens) const {
    auto const x = embedding("token", tokens, {.vocabulary = 23, .width = width});
    auto const y = repeat("block", 2, x, [](value z) {
      return z + linear("down", gelu(linear("up", rms_norm("norm", z), hidden)), width);
    });
    return linear("head", mean(y, axis::tokens), 7, {.role = role::head});
  }
};
template <int width, int hidden, int tokens>
using mlp = task<two_matrices<width, hidden>{}, classification, micro_batch{.sequences = 3, .tokens = tokens}>;

} // namespace constrain::test
