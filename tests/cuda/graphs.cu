// Trainings whose launches are recorded once and replayed.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <span>

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class... policies> void graph_is_eager() {
  ct::trainer<small, policies..., device_policy> eager({}, numbers);
  ct::trainer<small, policies..., device_policy, ct::launch::graph> graph({}, numbers);
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

} // namespace

TEST_CASE("a graph is the eager run, bit for bit") {
  graph_is_eager<>();
  graph_is_eager<ct::precision::bf16, ct::accumulate<2>, ct::checkpoint::every<1>>();
}

TEST_CASE("a graph runs all chunks of rows, an eager run those with a valid label: bit for bit the same") {
  ct::trainer<small, chunks_of_rows, device_policy> eager({}, numbers);
  ct::trainer<small, chunks_of_rows, device_policy, ct::launch::graph> graph({}, numbers);
  for (std::size_t const valid : {3u, 17u, 9u, 100u}) {
    auto w = tokens_for<decltype(eager)>(1);
    for (std::size_t i = valid; i < w.labels.size(); ++i) w.labels[i] = ct::ignored_label;
    CHECK(eager.step(eager.batch(w.inputs, w.labels)).loss == graph.step(graph.batch(w.inputs, w.labels)).loss);
  }
  CHECK(same_bits(weights_of(eager), weights_of(graph)));
}

TEST_CASE("a replayed graph reads the settings that were set after it was captured") {
  ct::run_options const run{.seed = 4};
  ct::trainer<small, device_policy> eager({}, run), unchanged({}, run);
  ct::trainer<small, device_policy, ct::launch::graph> graph({}, run);
  CHECK(same_bits(losses_of(eager, 3), losses_of(graph, 3)));
  losses_of(unchanged, 3);
  for (double const dropout : {0.3, 0.0, 0.5}) {
    eager.set("dropout", dropout), graph.set("dropout", dropout);
    eager.set("clip_norm", 0.1), graph.set("clip_norm", 0.1);
    CHECK(same_bits(losses_of(eager, 2), losses_of(graph, 2)));
  }
  CHECK(same_bits(weights_of(eager), weights_of(graph)));
  losses_of(unchanged, 6);
  CHECK(!same_bits(weights_of(unchanged), weights_of(graph)));
}
