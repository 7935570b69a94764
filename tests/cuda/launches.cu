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

namespace {

template <class task, class... policies> void launches_are_planned(double dropout) {
  using trainer = ct::trainer<task, policies..., device_policy>;
  CAPTURE(trainer::policy_set::name());
  CAPTURE(dropout);
  trainer t({}, {.dropout = dropout});
  losses_of(t, 1);
  auto const before = on_host::all_launches();
  losses_of(t, 3);
  CHECK(on_host::all_launches() - before == 3 * trainer::kernel_launches);
}

} // namespace

TEST_CASE("the plan has as many launches as the device") {
  launches_are_planned<small>(0);
  launches_are_planned<small, ct::launch::graph, ct::accumulate<2>, ct::checkpoint::every<2>>(0.1);
  launches_are_planned<small, ct::precision::bf16, ct::optimizer::momentum, ct::checkpoint::every<1>>(0);
  launches_are_planned<classifier, ct::launch::graph, ct::optimizer::sgd>(0);
  launches_are_planned<classifier, ct::precision::fp16>(0.1);
}
