// The slots of enqueued runs.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

namespace ct = constrain;

TEST_CASE("slots have no last results before a run has ended, and then the results of that run") {
  ct::cuda_stream const stream(ct::cuda_device(0));
  ct::cuda_arena arena(ct::bytes(64), stream);
  ct::cuda_slots slots(stream, arena);
  CHECK(slots.last_results() == nullptr);
  slots.begin(8, 8);
  CHECK(slots.last_results() == nullptr);
  slots.abandon();
  CHECK(slots.last_results() == nullptr);
  slots.begin(8, 8);
  auto const first = slots.end({});
  CHECK(slots.last_results() == first->wait());
  slots.begin(8, 8);
  CHECK(slots.last_results() == first->wait());
  auto const second = slots.end({});
  CHECK(slots.last_results() == second->wait());
}
