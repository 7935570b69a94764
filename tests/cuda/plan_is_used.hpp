#pragma once

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "dropout_if_any.hpp"

#include <cstddef>
#include <span>

namespace constrain::test {

/// Runs all entries of a trainer under these policies, and compares the bytes that it touches with the plan.
template <class task, class... policies> void plan_is_used() {
  using trainer = trainer<task, policies..., device_policy>;
  auto const w = tokens_for<trainer>(1);
  trainer t{{}, {.dropout = dropout_if_any<trainer>(0.1), .measure_memory = true}};
  CAPTURE(trainer::policy_set::name());
  auto const batch = std::span(w.inputs).first(static_cast<std::size_t>(task::sequences * task::tokens));
  t.step(t.batch(w.inputs, w.labels));
  t.predict(batch);
  t.evaluate(batch, std::span(w.labels).first(static_cast<std::size_t>(trainer::entries::labels)));
  if constexpr (trainer::entries::logits.rank == 3) t.generate(batch.first(3), 2);
  CHECK(t.used_bytes() == trainer::memory.peak);
}

} // namespace constrain::test
