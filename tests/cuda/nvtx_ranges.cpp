// One NVTX range for each call of a plan, if the program is compiled with CONSTRAIN_WITH_NVTX.

#define CONSTRAIN_WITH_NVTX
#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "cuda/tasks.hpp"
#include "sentence.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

using tiny = gpt<2, 1, 4, 7, 3, 1>;

/// Calls of a step: those in the body of the repeat run twice.
template <class trainer> std::size_t calls() {
  struct {
    std::size_t count = 0;
    void before(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) { ++count; }
    void after(int, ct::step const&, ct::bound_operand const*, ct::loop_state const&) {}
  } counter;
  using step = typename trainer::entries::step;
  auto view = ct::view_of<step, target>();
  std::vector<ct::launcher> const nothing(static_cast<std::size_t>(view.step_count),
                                          [](ct::call const&, ct::bound_operand const*) {});
  view.launchers = nothing.data();
  ct::execute(view, nullptr, {}, counter);
  return counter.count;
}
std::int64_t ranges_named(std::string const& name) { return std::ranges::count(on_host::ranges, name); }

} // namespace

TEST_CASE("every call has a range with the names of its op and node") {
  ct::trainer<tiny, device_policy> t({}, numbers);
  on_host::ranges.clear();
  losses_of(t, 1);
  CHECK(on_host::ranges.size() == calls<decltype(t)>());
  CHECK(ranges_named("embedding token.weight") == 1);
  CHECK(ranges_named("linear block.mlp.up.weight") == 2); // of two layers
  CHECK(ranges_named("linear_weight_gradient block.mlp.up.weight.gradient") == 2);
  CHECK(ranges_named("update block.mlp.up.weight.gradient") == 1);
  CHECK(on_host::open_ranges.empty());
  for (auto const& name : on_host::ranges) CHECK(name.find(' ') != std::string::npos);
}

TEST_CASE("ranges do not change the launches, and checked mode has them too") {
  using trainer = ct::trainer<tiny, device_policy>;
  trainer t({}, numbers);
  losses_of(t, 1);
  auto const before = on_host::all_launches();
  losses_of(t, 1);
  CHECK(on_host::all_launches() - before == trainer::kernel_launches); // calls are merged as without ranges
  auto run = numbers;
  run.checked = true;
  trainer checked({}, run);
  on_host::ranges.clear();
  CHECK(losses_of(checked, 1)[0] > 0);
  CHECK(on_host::ranges.size() == calls<trainer>());
}

TEST_CASE("a captured graph has ranges when it is captured, not when it is replayed") {
  using trainer = ct::trainer<tiny, device_policy, ct::launch::graph>;
  trainer t({}, numbers);
  on_host::ranges.clear();
  losses_of(t, 1);
  CHECK(on_host::ranges.size() == 2 * calls<trainer>()); // the first run, and the capture
  losses_of(t, 2);
  CHECK(on_host::ranges.size() == 2 * calls<trainer>());
}

TEST_CASE("a call that throws leaves no range open") {
  ct::trainer<tiny, device_policy> t({}, numbers);
  losses_of(t, 1);
  int thrown = 0;
  for (int n = 10; n < 60; n += 10) {
    on_host::let_fail(n);
    thrown += sentence([&] { losses_of(t, 1); }).empty() ? 0 : 1;
    on_host::let_fail(0);
    CHECK(on_host::open_ranges.empty());
  }
  CHECK(thrown == 5);
}
