// The hooks with which bench/cuda measures the calls of a step.

#include <constrain/constrain.hpp>

#include "../../bench/cuda/timed_calls.cuh"
#include "../../bench/step_of_plan.hpp"
#include "cuda/tasks.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using plan = ct::bench::step_of_plan<small, ct::precision::bf16, ct::optimizer::adamw, device_policy>;
using trainer = ct::trainer<small, ct::precision::bf16, ct::optimizer::adamw, device_policy>;

/// Hooks that count; `merges`: as without hooks.
template <bool merges> struct counting {
  [[maybe_unused]] static constexpr bool merges_calls = merges;
  std::int64_t& calls;
  void before(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) { ++calls; }
  void after(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) {}
};

} // namespace

TEST_CASE("timed calls are all calls of a step, and their times are the time of the step") {
  ct::bench::limits most;
  most.flops = most.copy = 1e12;
  plan p;
  auto const view = ct::bench::measured_plan_of<typename plan::entry, target>();
  std::int64_t calls = 0;
  p.run(counting<true>{calls});
  ct::bench::timed_calls hooks(view, p.on_device().context().stream());
  for (int round = 0; round < 2; ++round) { // the events are used again
    ct::bench::call_times times(view, most);
    p.run(hooks);
    auto const all = hooks.finish(times);
    std::int64_t timed = 0;
    double sum = 0, flops = 0;
    for (auto const& row : times.rows()) {
      timed += row.calls, sum += row.seconds, flops += row.flops;
      CHECK(row.seconds >= 0);
    }
    CHECK(timed == calls);
    CHECK(sum == doctest::Approx(all).epsilon(1e-3));
    CHECK(flops == doctest::Approx(trainer::flops).epsilon(0.05));
  }
}

#if defined(CONSTRAIN_ON_HOST)
TEST_CASE("hooks that merge calls have the launches of the plan, others have more") {
  plan p;
  std::int64_t calls = 0;
  auto const launches_of = [&](auto hooks) {
    auto const before = on_host::all_launches();
    p.run(hooks);
    p.on_device().arena().read(0, &calls, sizeof calls); // whatever was started has ended
    return on_host::all_launches() - before;
  };
  CHECK(launches_of(counting<true>{calls}) == trainer::kernel_launches);
  CHECK(launches_of(counting<false>{calls}) > trainer::kernel_launches);
}
#endif

TEST_CASE("the GEMMs of a plan have the FLOP of its linear layers") {
  auto const view = ct::bench::measured_plan_of<typename plan::entry, target>();
  auto const all = ct::bench::gemms_of(view);
  constexpr auto model = small::architecture;
  std::set<std::string> names;
  double flops = 0;
  for (auto const& g : all) {
    names.insert(g.name);
    auto const head = std::to_string(model.vocabulary) + "x" + std::to_string(model.width);
    flops += g.flops() * (g.name.ends_with(" " + head) ? 1 : model.layers);
  }
  CHECK(names.size() == all.size());
  CHECK(all.size() == 15);
  constexpr double width = model.width, rows = small::sequences * model.context;
  CHECK(flops == 6 * rows * width * (12 * width * model.layers + model.vocabulary));
}
