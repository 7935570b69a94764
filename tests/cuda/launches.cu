// What is started and allocated in a step, which the stand-in of the device counts.

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"

namespace ct = constrain;
using namespace constrain::test;

TEST_CASE("the optimizer is one launch, and nothing is allocated after the first step") {
  using trainer = ct::trainer<small, device_policy, ct::launch::graph>;
  trainer t({}, numbers);
  losses_of(t, 1);
  auto const allocations = on_host::allocations;
  on_host::launches.clear();
  losses_of(t, 5);
  CHECK(on_host::allocations == allocations);
  int updates = 0;
  for (auto const& n : trainer::entries::step_program::final.nodes)
    updates += n.op == &ct::info_of<ct::op::update<ct::optimizer::adamw>> ? 1 : 0;
  CHECK(updates > 10);
  CHECK(on_host::launches[on_host::address(&ct::update_kernel<ct::optimizer::adamw, float, 0, 1>)] == 5);
  CHECK(on_host::launches[on_host::address(&ct::square_chunks_kernel<float>)] == 5);
  CHECK(on_host::launches[on_host::address(&ct::gradient_norm_squared_kernel<float>)] == 5);
}
