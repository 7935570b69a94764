#include "fixtures.hpp"
#include "sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

// Learning-rate schedules against closed forms and Transformers', users' own, and values that are refused.

namespace ct = constrain;
namespace schedule = ct::schedule;
using ct::test::sentence;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 16, .context = 4}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task, ct::optimizer::sgd>;

std::string refusal(schedule::any const& s) {
  return sentence([&] { trainer({}, {.schedule = s}); });
}

/// A user's own: halves the factor every `period` steps.
struct halved {
  ct::optimizer_steps period = 3;
  double operator()(ct::optimizer_steps step) const { return std::pow(0.5, step.count() / period.count()); }
};

/// The same, as plain functions.
double halve(ct::optimizer_steps step) { return halved{}(step); }
float halve_in_float(ct::optimizer_steps step) noexcept { return static_cast<float>(halved{}(step)); }

static_assert(schedule::is_schedule<halved> && schedule::is_schedule<schedule::cosine>);
static_assert(!schedule::is_schedule<int> && !schedule::is_schedule<double (*)(double)>);
static_assert(!std::is_constructible_v<schedule::any, int>);
static_assert(!std::is_constructible_v<schedule::any, double (&)(double)>);

std::vector<float> weights(trainer const& t) {
  std::vector<float> all;
  for (auto const& p : t.parameters()) {
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

constexpr int warmup = 4, steps = 20;

} // namespace

TEST_CASE("schedules have their closed forms") {
  auto const share = [](int step, int begin, int end) { return std::min(1., double(step - begin) / (end - begin)); };
  auto const check = [](schedule::any const& s, char const* name, std::function<double(int)> const& after_warmup) {
    CAPTURE(name);
    CHECK(std::string(s.name()) == name);
    for (int step = 0; step < steps + 5; ++step) {
      CAPTURE(step);
      double const expected = step < warmup ? (step + 1.) / warmup : after_warmup(step);
      CHECK(std::abs(schedule::factor(s, step) - expected) <= 1e-15);
    }
  };
  check(schedule::constant{.warmup = warmup}, "constant", [](int) { return 1.; });
  check(schedule::linear{.warmup = warmup, .steps = steps, .minimum = 0.1}, "linear",
        [&](int s) { return 1 - 0.9 * share(s, warmup, steps); });
  check(schedule::cosine{.warmup = warmup, .steps = steps, .minimum = 0.1}, "cosine",
        [&](int s) { return 0.1 + 0.9 * (1 + std::cos(std::acos(-1.) * share(s, warmup, steps))) / 2; });
  check(schedule::polynomial{.warmup = warmup, .steps = steps, .power = 3, .minimum = 0.1}, "polynomial",
        [&](int s) { return 0.1 + 0.9 * std::pow(1 - share(s, warmup, steps), 3); });
  check(schedule::inverse_square_root{.warmup = warmup}, "inverse_square_root",
        [](int s) { return std::sqrt(double(warmup) / s); });
  check(schedule::inverse_square_root{.warmup = warmup, .timescale = 50}, "inverse_square_root",
        [](int s) { return std::sqrt(50. / (50 + s - warmup)); });
  auto const stable = [&](int s) { return s < steps - 6 ? 0. : share(s, steps - 6, steps); };
  check(schedule::warmup_stable_decay{.warmup = warmup, .steps = steps, .decay = 6, .minimum = 0.1},
        "warmup_stable_decay", [&](int s) { return 1 - 0.9 * stable(s); });
  check(
      schedule::warmup_stable_decay{
          .warmup = warmup, .steps = steps, .decay = 6, .minimum = 0.1, .form = schedule::decay_form::one_minus_sqrt},
      "warmup_stable_decay", [&](int s) { return 1 - 0.9 * std::sqrt(stable(s)); });
}

TEST_CASE("schedules without a warm-up begin with the full learning rate") {
  CHECK(schedule::any{}(0) == 1);
  CHECK(schedule::any{}(1000000) == 1);
  for (auto const& s : {schedule::any(schedule::constant{}), schedule::any(schedule::linear{.steps = 5}),
                        schedule::any(schedule::cosine{.steps = 5}), schedule::any(schedule::polynomial{.steps = 5}),
                        schedule::any(schedule::inverse_square_root{}),
                        schedule::any(schedule::warmup_stable_decay{.steps = 5, .decay = 5})})
    CHECK(s(0) == 1);
  CHECK(std::abs(schedule::inverse_square_root{}(10000) - std::sqrt(0.5)) <= 1e-15);
}

TEST_CASE("schedules are those of Transformers") {
  ct::test::fixture const theirs("schedules.safetensors");
  auto const check = [&](schedule::any const& ours, char const* name, bool warms_up_from_zero = true) {
    std::string const shown = name;
    CAPTURE(shown);
    auto const factors = theirs.reals(name);
    REQUIRE(factors.size() == steps + 1);
    CHECK((factors[0] == 0) == warms_up_from_zero); // Transformers' first factor; ours is 1 / warmup
    for (int step = warms_up_from_zero ? 0 : warmup; step <= steps; ++step) {
      CAPTURE(step);
      CHECK(std::abs(ours(step) - factors[static_cast<std::size_t>(step < warmup ? step + 1 : step)]) <= 1e-15);
    }
  };
  check(schedule::constant{.warmup = warmup}, "constant");
  check(schedule::linear{.warmup = warmup, .steps = steps}, "linear");
  check(schedule::cosine{.warmup = warmup, .steps = steps}, "cosine");
  check(schedule::cosine{.warmup = warmup, .steps = steps, .minimum = 0.25}, "cosine_with_minimum");
  check(schedule::polynomial{.warmup = warmup, .steps = steps, .power = 2, .minimum = 0.125}, "polynomial");
  check(schedule::inverse_square_root{.warmup = warmup}, "inverse_square_root");
  check(schedule::inverse_square_root{.warmup = warmup, .timescale = 50}, "inverse_square_root_50");
  check(schedule::warmup_stable_decay{.warmup = warmup, .steps = steps, .decay = 6, .minimum = 0.25},
        "warmup_stable_decay_with_minimum", false); // Transformers' warm-up begins with the minimum
  check(schedule::warmup_stable_decay{.warmup = warmup, .steps = steps, .decay = 6}, "warmup_stable_decay");
  check(
      schedule::warmup_stable_decay{
          .warmup = warmup, .steps = steps, .decay = 6, .form = schedule::decay_form::one_minus_sqrt},
      "warmup_stable_decay_one_minus_sqrt");
}

TEST_CASE("a trainer takes a user's own schedule") {
  std::vector<std::int32_t> const tokens(8, 3);
  auto const trained = [&](schedule::any const& s, std::vector<double> const& expected) {
    trainer t({.learning_rate = 0.5f}, {.schedule = s});
    for (double const rate : expected) {
      CHECK(t.learning_rate() == rate);
      t.step(t.batch(tokens, tokens));
    }
    return weights(t);
  };
  std::vector<double> const rates{0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
  auto const by_lambda = [](ct::optimizer_steps s) { return s.count() < 3 ? 1.f : s.count() < 6 ? 0.5f : 0.25f; };
  CHECK(trained(halved{}, rates) == trained(by_lambda, rates));
  CHECK(trained(halved{}, rates) != trained({}, std::vector<double>(7, 0.5)));
}

TEST_CASE("a plain function is a schedule by its name as by its address") {
  schedule::any const named = halve, addressed = &halve, in_float(halve_in_float);
  CHECK(std::string(named.name()) == "own function");
  CHECK(named.fields().empty());
  for (int step = 0; step < 9; ++step) {
    CHECK(named(step) == halved{}(step));
    CHECK(addressed(step) == halved{}(step));
    CHECK(in_float(step) == halved{}(step));
  }
  CHECK(trainer({.learning_rate = 0.5f}, {.schedule = halve}).learning_rate() == 0.5);
  CHECK(refusal(halve) == "");
}

TEST_CASE("a factor that cannot be is refused before the step, which then can be taken with another rate") {
  std::vector<std::int32_t> const tokens(8, 3);
  double factor = 1;
  trainer t({}, {.schedule = [&](ct::optimizer_steps) { return factor; }});
  t.step(t.batch(tokens, tokens));
  for (double const bad : {-1.0, std::numeric_limits<double>::infinity()}) {
    factor = bad;
    auto const weight = weights(t);
    CHECK(sentence([&] { t.step(t.batch(tokens, tokens)); }) ==
          "run_options: .schedule returns " + ct::detail::number_text(bad) +
              " for step 1; return a finite number of at least 0");
    CHECK(weights(t) == weight);
    CHECK(t.steps() == 1);
  }
  factor = 0.5;
  t.step(t.batch(tokens, tokens));
  CHECK(t.steps() == 2);
}

TEST_CASE("a factor that makes no finite learning rate is refused before the first step, or before its step") {
  std::vector<std::int32_t> const tokens(8, 3);
  auto const said = [](char const* rate, char const* factor, char const* scale) {
    return std::string("hyperparameters: the learning rate ") + rate + " times the factor " + factor +
           " of .schedule and the factor " + scale +
           " of scale_learning_rate is not finite in the type of the learning rate; make one of them smaller";
  };
  auto const start = [](schedule::any const& s) {
    return sentence([&] { trainer({.learning_rate = 4}, {.schedule = s}); });
  };
  CHECK(start([](ct::optimizer_steps) { return 1e300; }) == said("4", "1e+300", "1"));
  CHECK(start([](ct::optimizer_steps) { return 1e38; }) == said("4", "1e+38", "1")); // finite, but not in fp32
  CHECK(start([](ct::optimizer_steps) { return 1e37; }) == "");
  CHECK(start(schedule::cosine{.steps = 5, .minimum = 1e300}) ==
        "schedule::cosine: .minimum is 1e+300; give a number from 0 to 1");
  CHECK(start(schedule::linear{.warmup = 5, .steps = 5, .minimum = 1.5}) ==
        "schedule::linear: .minimum is 1.5; give a number from 0 to 1");
  CHECK(start(schedule::polynomial{.steps = 5, .minimum = 1.5}).starts_with("schedule::polynomial: .minimum is 1.5;"));
  CHECK(start(schedule::warmup_stable_decay{.steps = 5, .decay = 2, .minimum = 1.5})
            .starts_with("schedule::warmup_stable_decay: .minimum is 1.5;"));

  double factor = 1e30;
  trainer t({.learning_rate = 0.5f}, {.schedule = [&](ct::optimizer_steps step) { return step == 0 ? 1.0 : factor; }});
  t.step(t.batch(tokens, tokens));
  t.scale_learning_rate(1e9);
  auto const weight = weights(t);
  CHECK(sentence([&] { t.step(t.batch(tokens, tokens)); }) == said("0.5", "1e+30", "1e+09"));
  CHECK(weights(t) == weight);
  CHECK(t.steps() == 1);
  factor = 1e-9;
  CHECK(t.step(t.batch(tokens, tokens)).skipped == false);
}

TEST_CASE("a warm-up longer than the schedule, or than any run, and a form that does not exist") {
  for (auto const& s : {schedule::any(schedule::linear{.warmup = 11, .steps = 10}),
                        schedule::any(schedule::cosine{.warmup = 11, .steps = 10}),
                        schedule::any(schedule::polynomial{.warmup = 11, .steps = 10})})
    CHECK(refusal(s) == std::string("schedule::") + s.name() +
                            ": .warmup is longer than .steps, which include the warm-up; make .steps larger");
  // As in Transformers, all steps may be a warm-up.
  schedule::any const all_warm_up = schedule::cosine{.warmup = 10, .steps = 10, .minimum = 0.25};
  CHECK(refusal(all_warm_up) == "");
  CHECK(all_warm_up(9) == 1);
  CHECK(all_warm_up(10) == 0.25);
  constexpr auto longest = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  CHECK(refusal(schedule::linear{.warmup = longest, .steps = longest - 1}) ==
        "schedule::linear: .warmup is longer than .steps, which include the warm-up; make .steps larger");
  CHECK(refusal(schedule::constant{.warmup = longest}) == "");
  CHECK(refusal(schedule::inverse_square_root{.timescale = longest}) == "");
  CHECK(refusal(schedule::constant{.warmup = least}) ==
        "schedule::constant: .warmup is -9223372036854775808; give an integer of at least 0");
  CHECK(refusal(schedule::warmup_stable_decay{.warmup = 1, .steps = least, .decay = 1}) ==
        "schedule::warmup_stable_decay: .steps is -9223372036854775808; give an integer of at least 1");
  CHECK(refusal(schedule::warmup_stable_decay{.steps = 10, .decay = 2, .form = schedule::decay_form(7)}) ==
        "schedule::warmup_stable_decay: .form is neither decay_form::linear nor decay_form::one_minus_sqrt; give one "
        "of them");
}

TEST_CASE("schedules that cannot be are refused") {
  std::function<double(ct::optimizer_steps)> const empty;
  constexpr auto is_empty = "run_options: .schedule is an empty function; give a function that can be called";
  CHECK(refusal(empty) == is_empty);
  CHECK(sentence([&] { schedule::factor(empty, 0); }) == is_empty);
  CHECK(refusal([](ct::optimizer_steps) { return -0.5; }) ==
        "run_options: .schedule returns -0.5 for step 0; return a finite number of at least 0");
  CHECK(refusal(schedule::warmup_stable_decay{.warmup = 3, .steps = 10, .decay = 8}) ==
        "schedule::warmup_stable_decay: .warmup and .decay together are longer than .steps; make .steps larger");
  CHECK(refusal(schedule::warmup_stable_decay{.warmup = 3, .steps = 10, .decay = 7}) == "");
  CHECK(refusal(schedule::warmup_stable_decay{.steps = 10}) ==
        "schedule::warmup_stable_decay: .decay is 0; give an integer of at least 1");
  CHECK(refusal(schedule::polynomial{.steps = 10, .power = 0}) ==
        "schedule::polynomial: .power is 0; give a finite number above 0");
  CHECK(refusal(schedule::inverse_square_root{.timescale = -1}) ==
        "schedule::inverse_square_root: .timescale is -1; give an integer of at least 0");
}

TEST_CASE("a user's own schedule is called only for steps of the run") {
  std::int64_t largest = 0;
  auto const falling = [&](ct::optimizer_steps s) {
    largest = std::max(largest, s.count());
    return 1.0 - static_cast<double>(s.count()) / 100;
  };
  CHECK(ct::schedule::any(falling).fields().empty());
  trainer t({}, {.schedule = falling});
  CHECK(largest == 0);
}
