#pragma once

#include "check_gradients.hpp"
#include "op/call_kernel.hpp"

#include <vector>

namespace constrain::test {

/// The results of three steps on one batch: the losses, then every gradient and every weight.
template <class trainer> std::vector<double> three_steps(bool checked) {
  auto const w = random_batch::draw<trainer>(11);
  trainer t({.learning_rate = 0.01f}, {.seed = 5, .dropout = dropout_if_any<trainer>(0.3), .checked = checked});
  std::vector<double> all;
  for (int i = 0; i < 3; ++i) all.push_back(t.step(t.batch(w.inputs, w.labels)).loss);
  for (auto const& p : t.parameters()) {
    std::vector<double> values(static_cast<std::size_t>(p.size()));
    t.gradient(p.name).copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
    p.copy_to(std::span<double>(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Checks the gradients of a task against finite differences. Then checks that results are bit-identical with a
/// checkpoint every `every` iterations, for each value of `every`, with dropout. `list`: policies of all trainers.
template <class... list> struct with {
  template <class task, int... every> static void check_recomputation() {
    check_gradients<task, list...>();
    auto const kept = three_steps<trainer<task, precision::fp64, optimizer::sgd, list...>>(true);
    auto const same = [&](int iterations, auto policy) {
      using again = trainer<task, precision::fp64, optimizer::sgd, list..., decltype(policy)>;
      CAPTURE(iterations);
      CHECK(same_bits(three_steps<again>(true), kept));
      CHECK(same_bits(three_steps<again>(false), kept));
    };
    (same(every, checkpoint::every<every>{}), ...);
  }
};

template <class task, int... every> void check_recomputation() { with<>::check_recomputation<task, every...>(); }

} // namespace constrain::test
