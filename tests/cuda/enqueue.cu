// Steps that are enqueued give the bits of `step`.

#include "cuda/enqueued_is_stepped.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("enqueued steps give the bits of step") { enqueued_is_stepped<small, ct::launch::graph>(); }

TEST_CASE("a step after a skipped one has the hyperparameters of step") { skipped_steps_are_stepped<>(); }
