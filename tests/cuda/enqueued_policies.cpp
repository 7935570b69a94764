// Steps that are enqueued give the bits of `step`, with policies whose steps depend on one another in their own ways.

#include "cuda/enqueued_is_stepped.hpp"

namespace ct = constrain;
using namespace constrain::test;
using tiny = gpt<1, 1, 4, 7, 3, 1>;

TEST_CASE("enqueued steps give the bits of step") {
  enqueued_is_stepped<tiny>();
  enqueued_is_stepped<tiny, ct::launch::graph, ct::accumulate<2>, ct::optimizer::momentum>();
  enqueued_is_stepped<tiny, ct::precision::fp16>();
  enqueued_is_stepped<tiny, ct::optimizer::in_backward<ct::optimizer::adamw>>(0);
}

TEST_CASE("a step after a skipped one has the hyperparameters of step") {
  skipped_steps_are_stepped<ct::launch::graph>();
  skipped_steps_are_stepped<ct::precision::bf16, ct::optimizer::lion>();
  skipped_steps_are_stepped<ct::precision::fp16, ct::launch::graph>();
}
