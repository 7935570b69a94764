#pragma once

#include "programs.hpp"

#include <constrain/op/rms_norm/rms_norm.hpp>
#include <constrain/op/soft_cap/soft_cap.hpp>
#include <constrain/op/tanh/tanh.hpp>
#include <constrain/pass/recomputation_estimate.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

/// Small programs to rematerialize, and all choices of what to drop.
namespace constrain::test {

/// Every kind of layer, outside of repeats and inside, with activations that are cheap to recompute and others that are
/// costly.
struct mixed {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 8});
    x = gelu(linear("in", layer_norm("first", x), 24));
    x = repeat("block", 3, x, [](value x) { return x + linear("down", dropout(silu(linear("up", x, 40))), 24); });
    return linear("head", layer_norm("last", x), 8);
  }
};

/// Branches that read the same activation.
struct gated {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 16});
    x = repeat("block", 4, x, [](value x) {
      auto const h = rms_norm("norm", x);
      return x + linear("down", silu(linear("gate", h, 40)) * linear("up", h, 40), 16);
    });
    return linear("head", rms_norm("last", x), 8);
  }
};

/// Two repeats of different lengths.
struct two_repeats {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 16});
    x = repeat("first", 4, x, [](value x) { return x + linear("down", silu(linear("up", x, 40)), 16); });
    x = repeat("second", 3, x,
               [](value x) { return x + linear("out", gelu(linear("in", layer_norm("norm", x), 24)), 16); });
    return linear("head", layer_norm("last", x), 8);
  }
};

/// No repeat: dropping everything needs more bytes than dropping nothing.
struct flat {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 8});
    x = gelu(linear("a", layer_norm("norm", x), 40));
    x = dropout(tanh(linear("b", x, 4)));
    x = silu(linear("c", x, 48));
    return soft_cap(linear("head", x, 8), 5);
  }
};

/// A narrow repeat before a wide one.
struct narrow_then_wide {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 8});
    x = repeat("narrow", 2, x,
               [](value x) { return x + linear("down", silu(linear("up", rms_norm("norm", x), 4)), 8); });
    x = repeat("wide", 2, x,
               [](value x) { return x + linear("down", tanh(linear("up", layer_norm("norm", x), 40)), 8); });
    return linear("head", layer_norm("last", x), 8);
  }
};

/// One narrow repeat between wide layers.
struct narrow_repeat {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 4});
    x = tanh(linear("in", x, 16));
    x = repeat("block", 2, x,
               [](value x) { return x + linear("down", gelu(linear("up", rms_norm("norm", x), 4)), 16); });
    return soft_cap(linear("head", x, 8), 5);
  }
};

/// A narrow repeat after layers that are costly to recompute.
struct wide_then_narrow {
  constexpr value operator()(value tokens) const {
    auto x = embedding("token", tokens, {.vocabulary = 8, .width = 48});
    x = gelu(linear("in", x + linear("residual", gelu(x), 48), 24));
    x = repeat("block", 2, x,
               [](value x) { return x + linear("down", gelu(linear("up", layer_norm("norm", x), 4)), 24); });
    return linear("head", layer_norm("last", x), 8);
  }
};

template <auto model> using task_of = task<model, causal_lm, micro_batch{.sequences = 4, .tokens = 16}>;
using mixed_task = task<mixed{}, causal_lm, micro_batch{.sequences = 8, .tokens = 16}>;
template <int layers>
using attention_task = task<gpt2{.layers = layers, .heads = 2, .width = 16, .vocabulary = 16, .context = 32}, causal_lm,
                            micro_batch{.sequences = 2}>;

/// All choices that are not equivalent.
inline std::vector<std::uint64_t> all_choices(recomputation_estimate const& estimate) {
  REQUIRE(estimate.size() > 5);
  REQUIRE(estimate.size() <= 16);
  std::vector<std::uint64_t> all;
  for (std::uint64_t choice = 0; choice <= estimate.all(); ++choice)
    if (estimate.of(choice).choice == choice) all.push_back(choice);
  return all;
}

} // namespace constrain::test
