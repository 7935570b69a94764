#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include "sentence.hpp"

#include <limits>
#include <string>
#include <vector>

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
  CHECK(run_with(broken).find("accesses bytes outside the arena") != std::string::npos);
}

namespace {

struct linear_model {
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 1); }
};
template <class policies> struct trainer_with;
template <class... list> struct trainer_with<ct::policies<list...>> { using type = ct::trainer<task, list...>; };
using regression = ct::task<linear_model{}, ct::mean_squared_error, ct::micro_batch{.sequences = 2}>;

} // namespace

TEST_CASE_TEMPLATE("an overflow of the loss scale skips the step, as without checked mode", policies,
                   ct::policies<ct::precision::fp16>,
                   ct::policies<ct::precision::fp16, ct::checkpoint::every<1>, ct::accumulate<2>>,
                   ct::policies<ct::precision::fp16, ct::fusion::all>,
                   ct::policies<ct::precision::fp16, ct::optimizer::muon<>>) {
  using trainer = typename trainer_with<policies>::type;
  trainer t({}, {.loss_scale = {.initial = 0x1p100, .backoff = 0x1p-90}, .checked = true});
  std::vector<std::int32_t> const tokens(static_cast<std::size_t>(trainer::batch_tokens), 3);
  auto const step = [&] { return t.step(t.batch(tokens, tokens)); };
  auto const skipped = step();
  CHECK(skipped.skipped);
  CHECK(!skipped.not_finite.empty());
  CHECK(t.setting("loss_scale") == 1024);
  CHECK(!step().skipped);
  // What the loss scale does not multiply is checked.
  auto const bias = t.parameters().back();
  std::vector<float> wrong(static_cast<std::size_t>(bias.size()), std::numeric_limits<float>::infinity());
  bias.copy_from(std::span<float const>(wrong));
  auto const said = ct::test::sentence(step);
  CAPTURE(said);
  CHECK(said.find("writes a non-finite value") != std::string::npos);
}

TEST_CASE("an overflow that no smaller loss scale avoids is found") {
  ct::trainer<regression, ct::precision::fp16> t({}, {.loss_scale = {.backoff = 0x1p-20}, .checked = true});
  std::vector<float> const x(4, 1), y(2, 1e30f); // the gradient of the prediction is 1e30 in fp16
  auto const step = [&] { return t.step(t.batch(x, y)); };
  CHECK(step().skipped);
  CHECK(step().skipped);
  CHECK(t.setting("loss_scale") == 0x1p-24);
  auto const said = ct::test::sentence(step);
  CAPTURE(said);
  CHECK(said.find("writes a non-finite value") != std::string::npos);
  CHECK(said.find("the largest finite number of fp16 is 65504") != std::string::npos);
}
