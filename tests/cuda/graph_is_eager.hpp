#pragma once

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <cstddef>
#include <span>

namespace constrain::test {

/// Compares two trainings under these policies: one that launches kernel by kernel, and one that replays graphs.
template <class... policies> void graph_is_eager() {
  trainer<small, policies..., device_policy> eager({}, numbers);
  trainer<small, policies..., device_policy, launch::graph> graph({}, numbers);
  CAPTURE(decltype(graph)::policy_set::name());
  CHECK(same_bits(losses_of(eager, 6), losses_of(graph, 6)));
  auto const w = tokens_for<decltype(eager)>(1);
  auto const batch = std::span(w.inputs).first(static_cast<std::size_t>(small::sequences * small::tokens));
  auto const labels = std::span(w.labels).first(batch.size());
  for (int i = 0; i < 3; ++i) CHECK(eager.evaluate(batch, labels).loss == graph.evaluate(batch, labels).loss);
  CHECK(eager.generate(batch.first(3), 5) == graph.generate(batch.first(3), 5));
  CHECK(same_bits(losses_of(eager, 3), losses_of(graph, 3)));
  CHECK(same_bits(weights_of(eager), weights_of(graph)));
}

} // namespace constrain::test
