// The plan of a device: its bytes, and the program it comes from.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

#include <span>

namespace ct = constrain;
using namespace constrain::test;

namespace {

template <class task, class... policies> void plan_is_used() {
  using trainer = ct::trainer<task, policies..., device_policy>;
  auto const w = tokens_for<trainer>(1);
  trainer t{{}, {.dropout = 0.1, .measure_memory = true}};
  CAPTURE(trainer::policy_set::name());
  auto const batch = std::span(w.inputs).first(static_cast<std::size_t>(task::sequences * task::tokens));
  t.step(t.batch(w.inputs, w.labels));
  t.predict(batch);
  t.evaluate(batch, std::span(w.labels).first(static_cast<std::size_t>(trainer::entries::labels)));
  if constexpr (trainer::entries::logits.rank == 3) t.generate(batch.first(3), 2);
  CHECK(t.used_bytes() == trainer::memory.peak);
}

} // namespace

TEST_CASE("planned bytes are the bytes that are touched") {
  plan_is_used<small>();
  plan_is_used<small, ct::accumulate<3>, ct::checkpoint::every<2>>();
  plan_is_used<small, ct::precision::bf16>();
  plan_is_used<classifier, ct::precision::fp64, ct::optimizer::sgd>();
}
