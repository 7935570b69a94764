#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "sentence.hpp"

// Checked mode finds what a wrong plan would do: a right plan is broken here on purpose.

namespace ct = constrain;

namespace {

using task = ct::task<ct::gpt2{.layers = 3, .heads = 2, .width = 16, .vocabulary = 31, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using entries = ct::entries<task, ct::policies<>>;

constexpr auto const& plan = entries::step::value;
constexpr auto const& program = entries::step_program::final;
constexpr auto values = ct::make_checked_table<program.values.count>(program);

/// Runs the step's plan with operands that somebody has tampered with.
std::string run_with(std::vector<ct::operand> const& operands) {
  ct::host_arena arena(entries::memory.peak);
  arena.fill(0, arena.size().count(), 0xFF);
  ct::initialize(entries::parameters.view(), 1, arena, 0);
  arena.fill(plan.nth(ct::port_kind::input, 0).view.offset, plan.nth(ct::port_kind::input, 0).view.elements * 4, 0);
  arena.fill(plan.nth(ct::port_kind::label, 0).view.offset, plan.nth(ct::port_kind::label, 0).view.elements * 4, 0);
  ct::op::step_hyperparameters<ct::optimizer::adamw, float> const hyper({}, {1});
  arena.write(plan.hyper.offset, &hyper, sizeof hyper);
  auto view = ct::view_of<entries::step, ct::cpu>();
  view.operands = operands.data();
  double const inverse_label_count = 1.0 / 16;
  arena.write(plan.inverse_label_count.offset, &inverse_label_count, sizeof inverse_label_count);
  ct::step_parameters parameters;
  parameters.samples = 2;
  return ct::test::sentence([&] {
    ct::checked_hooks checks(arena, view.operands, values.values);
    for (auto const& host : {plan.nth(ct::port_kind::input, 0).view, plan.nth(ct::port_kind::label, 0).view, plan.hyper,
                             plan.inverse_label_count})
      checks.wrote(host);
    ct::execute(view, arena.data(), parameters, checks);
  });
}

std::vector<ct::operand> sound() { return {std::begin(plan.operands), std::end(plan.operands)}; }

} // namespace

TEST_CASE("a sound plan passes") { CHECK(run_with(sound()).empty()); }

TEST_CASE("a value that is stacked too little is found, though nothing is poisoned any more") {
  int found = 0;
  auto operands = sound();
  // Take the stride from one stacked transient at a time: the backward loop then reads the last iteration's bytes.
  std::vector<int> stacked;
  for (auto const& o : operands) {
    auto const role = program.values[o.value].role;
    bool const transient = role == ct::role::activation && !program.values[o.value].is_loop_carried();
    if (transient && !o.strides.empty() && std::find(stacked.begin(), stacked.end(), o.value) == stacked.end())
      stacked.push_back(o.value);
  }
  REQUIRE(stacked.size() >= 5);
  for (int value : stacked) {
    auto broken = sound();
    for (auto& o : broken)
      if (o.value == value) o.strides = {};
    auto const said = run_with(broken);
    CAPTURE(value);
    CHECK(!said.empty());
    found += said.find("of another iteration; this is a bug") != std::string::npos ? 1 : 0;
  }
  // The others share another's bytes in place: there the other one is missed.
  CHECK(found >= 5);
}

TEST_CASE("a value on top of another is found") {
  auto broken = sound();
  // Give the first stacked activation the offset of the loop-carried value.
  std::int64_t carried = -1;
  for (auto const& o : broken)
    if (o.position_stride != 0 && carried < 0) carried = o.offset;
  int moved = -1;
  for (auto& o : broken) {
    auto const& info = program.values[o.value];
    if (moved < 0 && info.role == ct::role::activation && !info.is_loop_carried() && !o.strides.empty())
      moved = o.value;
    if (o.value == moved) o.offset = carried;
  }
  auto const said = run_with(broken);
  CAPTURE(said);
  CHECK(said.find("reads value %") != std::string::npos);
}

TEST_CASE("an operand beyond the arena is found") {
  auto broken = sound();
  broken.back().offset = entries::memory.peak.count();
  CHECK(run_with(broken).find("reaches beyond the arena") != std::string::npos);
}
