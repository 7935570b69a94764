// A trainer in chunks of rows whose launches are recorded once and replayed.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("a graph runs all chunks of rows, an eager run those with a valid label: bit for bit the same") {
  ct::trainer<small, ct::fusion::all, device_policy> eager({}, numbers);
  ct::trainer<small, ct::fusion::all, device_policy, ct::launch::graph> graph({}, numbers);
  for (std::size_t const valid : {3u, 17u, 9u, 100u}) {
    auto w = tokens_for<decltype(eager)>(1);
    for (std::size_t i = valid; i < w.labels.size(); ++i) w.labels[i] = ct::ignored_label;
    CHECK(eager.step(eager.batch(w.inputs, w.labels)).loss == graph.step(graph.batch(w.inputs, w.labels)).loss);
  }
  CHECK(same_bits(weights_of(eager), weights_of(graph)));
}
