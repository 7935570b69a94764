// Trainings whose launches are recorded once and replayed.

#include "cuda/graph_is_eager.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("a graph is the eager run, bit for bit") { graph_is_eager<>(); }

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
