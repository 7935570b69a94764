#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <constrain/io/json.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

// When `fit` calls a callback, with which arguments, and what a callback can do: end the run, record its own metrics.

namespace ct = constrain;
using ct::test::sentence, ct::test::temporary_directory;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 8, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

// 40 samples: 20 batches an epoch.
ct::data::corpus const& corpus() {
  static auto const made = [] {
    std::string text;
    for (int i = 0; i < 40 * 8 + 3; ++i) text += static_cast<char>(i * 37 % 251);
    return ct::data::corpus::from_bytes(text);
  }();
  return made;
}

std::vector<ct::io::json> steps_of(std::string const& records) {
  std::ifstream in(records + "/steps.jsonl");
  std::vector<ct::io::json> all;
  for (std::string line; std::getline(in, line);) all.push_back(ct::io::json::parse(line, "steps.jsonl"));
  return all;
}

/// Writes down what happens.
struct diary {
  std::string text{};
  std::vector<double> epochs{};
  ct::fit_context at_end{};

  void on_start(ct::fit_context& c) { text += "start " + number(c.first_step) + "/" + number(c.steps) + "\n"; }
  void on_step(ct::fit_context& c) {
    text += "step " + number(c.step) + (std::isfinite(c.last.loss) && c.last.tokens == 16 ? "\n" : " ?\n");
    epochs.push_back(c.epoch);
  }
  void on_evaluation(ct::fit_context& c) {
    text += "evaluation " + number(c.step) + (c.validation->tokens > 0 ? "\n" : " ?\n");
  }
  void on_save(ct::fit_context& c) { text += "save " + c.saved.substr(c.saved.rfind('/') + 1) + "\n"; }
  void on_end(ct::fit_context& c) {
    text += "end " + number(c.result.steps) + "\n";
    at_end = c;
  }

  static std::string number(ct::optimizer_steps n) { return std::to_string(n.count()); }
};

void ask_nothing(ct::step_result const&) {}
bool at_once(ct::step_result const&) { return false; }

} // namespace

TEST_CASE("a pointer to a member of the result is called as a function of it is") {
  trainer t;
  // The loss is not 0: the run continues.
  CHECK(ct::fit(t, corpus(), {.steps = 2, .log = nullptr}, &ct::step_result::loss).steps == 2);
}

TEST_CASE("an object is called on start, step, evaluation, save and end") {
  temporary_directory const directory;
  trainer t;
  diary d;
  auto const result = ct::fit(t, corpus(),
                              {.steps = 4,
                               .validation = &corpus(),
                               .evaluate_every = 3,
                               .directory = directory / "last",
                               .save_every = 2,
                               .log = nullptr,
                               .best = directory / "best"},
                              d);
  auto const evaluated = [&](std::string const& step) { return "evaluation " + step + "\nsave best\n"; };
  CHECK(d.text == "start 0/4\nstep 1\nstep 2\nsave last\nstep 3\n" + evaluated("3") + "step 4\n" + evaluated("4") +
                      "save last\nend 4\n");
  CHECK(d.at_end.result.loss == result.loss);
  CHECK(d.at_end.result.tokens_per_second == result.tokens_per_second);
  CHECK(d.at_end.validation->loss == result.validation->loss);
  CHECK(d.epochs == std::vector<double>{0.05, 0.1, 0.15, 0.2});
  // A resumed run, and a run with no steps left.
  trainer second;
  second.load(directory / "last");
  diary again, nothing;
  ct::fit(second, corpus(), {.steps = 5, .log = nullptr}, again);
  CHECK(again.text == "start 4/5\nstep 5\nend 5\n");
  CHECK(again.epochs == std::vector<double>{0.25});
  ct::fit(second, corpus(), {.steps = 5, .log = nullptr}, nothing);
  CHECK(nothing.text == "start 5/5\nend 5\n");
}

TEST_CASE("functions of every kind are called after a step") {
  trainer t;
  int steps = 0;
  auto const options = ct::fit_options{.steps = -1, .epochs = 1, .log = nullptr};
  auto const fit = [&](auto&& f) {
    steps = 0;
    return ct::fit(t, corpus(), {.steps = t.steps() + 2, .log = nullptr}, f).stop_reason;
  };
  CHECK(fit([&](ct::step_result const&) { ++steps; }) == ct::stop_reason::all_steps);
  CHECK(steps == 2);
  CHECK(fit([&, own = 0](ct::step_result const&) mutable { steps = ++own; }) == ct::stop_reason::all_steps);
  CHECK(steps == 2);
  CHECK(fit([&](auto const& r) { return ++steps < 2 && r.loss > 0; }) == ct::stop_reason::by_callback);
  CHECK(fit([&](ct::fit_context& c) { steps += c.step == t.steps(); }) == ct::stop_reason::all_steps);
  CHECK(steps == 2);
  CHECK(fit(std::function<void(ct::step_result const&)>([&](ct::step_result const&) { ++steps; })) ==
        ct::stop_reason::all_steps);
  CHECK(fit(ask_nothing) == ct::stop_reason::all_steps);
  CHECK(fit(&ask_nothing) == ct::stop_reason::all_steps);
  CHECK(ct::fit(t, corpus(), {.steps = t.steps() + 2, .log = nullptr}, at_once).stop_reason ==
        ct::stop_reason::by_callback);
  CHECK(options.epochs == 1);
}

TEST_CASE("a callback ends the run wherever it asks") {
  temporary_directory const directory;
  struct stopping {
    std::string where{};
    std::string ended{};
    void ask(char const* here, ct::fit_context& c) const {
      if (where == here) c.stop();
    }
    void on_start(ct::fit_context& c) const { ask("start", c); }
    void on_step(ct::fit_context& c) const { ask("step", c); }
    void on_evaluation(ct::fit_context& c) const { ask("evaluation", c); }
    void on_save(ct::fit_context& c) const { ask("save", c); }
    void on_end(ct::fit_context& c) { ended = c.result.stop_reason == ct::stop_reason::by_callback ? "by me" : "?"; }
  };
  auto const ends_after = [&](char const* where) {
    trainer t;
    stopping s{where};
    auto const path = directory / where;
    auto const result = ct::fit(
        t, corpus(),
        {.steps = 9, .validation = &corpus(), .evaluate_every = 2, .directory = path, .save_every = 3, .log = nullptr},
        s);
    CHECK(result.stop_reason == ct::stop_reason::by_callback);
    CHECK(s.ended == "by me");
    trainer saved; // whatever it ends by: what was trained is saved
    CHECK(saved.resume(path) == (result.steps > 0));
    CHECK(saved.steps() == result.steps);
    return result.steps.count();
  };
  CHECK(ends_after("start") == 0);
  CHECK(ends_after("step") == 1);
  CHECK(ends_after("evaluation") == 2);
  CHECK(ends_after("save") == 3);
}

TEST_CASE("one's own metrics stand in the records") {
  temporary_directory const directory;
  struct measuring {
    void on_start(ct::fit_context& c) { c.metric("begun", 1); }
    void on_step(ct::fit_context& c) {
      if (c.step == 2) c.metric("lost", std::numeric_limits<double>::quiet_NaN());
      c.metric("norm/twice", 0);
      c.metric("norm/twice", 2 * c.last.gradient_norm);
    }
    void on_evaluation(ct::fit_context& c) { c.metric("bits", c.validation->loss / std::log(2)); }
    void on_save(ct::fit_context& c) { c.metric("saved <b>", c.step.count()); }
    void on_end(ct::fit_context& c) { c.metric("at last", c.result.loss); }
  };
  trainer t;
  measuring m;
  auto const result = ct::fit(t, corpus(),
                              {.steps = 4,
                               .validation = &corpus(),
                               .evaluate_every = 2,
                               .directory = directory / "run",
                               .save_every = 2,
                               .log = nullptr,
                               .records = directory / "records"},
                              m);
  auto const steps = steps_of(directory / "records");
  REQUIRE(steps.size() == 4);
  auto const names = [&](std::size_t i) {
    std::string all;
    auto const metrics = steps[i]["metrics"]; // kept: its views live as long
    for (auto const& [name, value] : metrics.members()) all += std::string(name) + " ";
    return all;
  };
  CHECK(names(0) == "begun norm/twice ");
  CHECK(names(1) == "lost norm/twice bits ");
  CHECK(names(2) == "saved <b> norm/twice ");
  CHECK(names(3) == "norm/twice bits ");
  CHECK(steps[0]["metrics"]["norm/twice"].real() == 2 * steps[0]["gradient_norm"].real());
  CHECK(std::isnan(steps[1]["metrics"]["lost"].real()));
  CHECK(steps[2]["metrics"]["saved <b>"].real() == 2);
  CHECK(steps[3]["metrics"]["bits"].real() == result.validation->loss / std::log(2));
  auto const summary = ct::io::json::parse(ct::test::read_file(directory / "records/summary.json"), "summary.json");
  CHECK(summary["metrics"]["at last"].real() == result.loss);
  CHECK(summary["metrics"]["saved <b>"].real() == 4);
  auto const page = ct::test::read_file(directory / "records/report.html");
  for (auto const* title : {">begun<", ">norm/twice<", ">bits<", ">saved &lt;b&gt;<"})
    CHECK(page.find(title) != std::string::npos);
  CHECK(page.find(">lost<") == std::string::npos); // it has no finite value
  for (auto const& entry : std::filesystem::directory_iterator(directory / "records"))
    if (entry.path().filename().string().starts_with("events."))
      CHECK(ct::test::read_file(entry.path()).find("metrics/norm/twice") != std::string::npos);
  // A resumed run keeps them.
  trainer second;
  second.resume(directory / "run");
  ct::fit(second, corpus(), {.steps = 5, .log = nullptr, .records = directory / "records"});
  CHECK(ct::test::read_file(directory / "records/report.html").find(">norm/twice<") != std::string::npos);
  CHECK_FALSE(steps_of(directory / "records")[4].find("metrics").has_value());
}

TEST_CASE("the settings of the model stand in the records, as each step read them") {
  temporary_directory const directory;
  using fp16_trainer = ct::trainer<task, ct::precision::fp16>;
  fp16_trainer t({}, {.loss_scale = {.interval = 2}});
  auto const overflow = [&](ct::fit_context& c) {
    if (c.step == 3) t.set("loss_scale", std::ldexp(1.0, 100));
  };
  ct::fit(t, corpus(), {.steps = 5, .directory = directory / "run", .log = nullptr, .records = directory / "records"},
          overflow);
  auto const steps = steps_of(directory / "records");
  REQUIRE(steps.size() == 5);
  double const scales[] = {65536, 65536, 131072, std::ldexp(1.0, 100), std::ldexp(1.0, 99)};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(steps[i]["settings"]["loss_scale"].real() == scales[i]);
    CHECK(steps[i]["skipped"].boolean() == (i >= 3));
  }
  for (auto const& entry : std::filesystem::directory_iterator(directory / "records"))
    if (entry.path().filename().string().starts_with("events."))
      CHECK(ct::test::read_file(entry.path()).find("settings/loss_scale") != std::string::npos);
  // The report of a resumed run has the steps before.
  ct::fit(t, corpus(), {.steps = 6, .log = nullptr, .records = directory / "records"});
  CHECK(ct::test::read_file(directory / "records/report.html").find(">loss_scale<") != std::string::npos);
  // A setting that never changes is recorded, and has no chart.
  trainer plain({}, {.clip_norm = 0.5});
  ct::fit(plain, corpus(), {.steps = 2, .log = nullptr, .records = directory / "plain"});
  CHECK(steps_of(directory / "plain")[1]["settings"]["clip_norm"].real() == 0.5);
  CHECK(ct::test::read_file(directory / "plain/report.html").find("clip_norm") == std::string::npos);
}

TEST_CASE("a metric needs a name") {
  trainer t;
  auto const said = [&](char const* name) {
    return sentence([&] {
      ct::fit(t, corpus(), {.steps = t.steps() + 1, .log = nullptr}, [&](ct::fit_context& c) { c.metric(name, 1); });
    });
  };
  CHECK(said("") == "fit: the name '' of a metric is empty; use another name");
  CHECK(said("\xff").ends_with("of a metric is not UTF-8; use another name"));
  CHECK(said("\x01") == ""); // odd, but JSON and HTML have a way to say it
}

TEST_CASE("a metric's name has no NUL byte, at which its tag would end") {
  ct::fit_context c;
  for (auto const* name : {"a\0x", "a\0y"})
    CHECK(sentence([&] { c.metric(std::string_view(name, 3), 1); }) ==
          "fit: the name 'a' of a metric has a NUL byte; use another name");
  CHECK(c.take_metrics().empty());
}

TEST_CASE("a callback sees every step and may end the run") {
  trainer t;
  std::vector<double> losses;
  auto const result = ct::fit(t, corpus(), {.steps = 9, .log = nullptr}, [&](ct::step_result const& r) {
    losses.push_back(r.loss);
    return losses.size() < 4;
  });
  CHECK(result.stop_reason == ct::stop_reason::by_callback);
  CHECK(result.steps == 4);
  CHECK(losses.size() == 4);
  CHECK(losses.back() == result.loss);
}

TEST_CASE("a callback that takes a step or loads a run is refused, but not at the end") {
  temporary_directory const directory;
  trainer t;
  t.save(directory / "start");
  struct {
    std::string when, from;
    trainer& t;
    void load(char const* now) {
      if (when == now) t.load(from);
    }
    void on_step(ct::fit_context&) { load("step"); }
    void on_evaluation(ct::fit_context&) { load("evaluation"); }
    void on_end(ct::fit_context&) { load("end"); }
  } loading{"step", directory / "start", t};
  ct::fit_options const options{.steps = 2, .validation = &corpus(), .evaluate_every = 2, .log = nullptr};
  for (auto const* when : {"step", "evaluation"}) {
    loading.when = when;
    CHECK(sentence([&] { ct::fit(t, corpus(), options, loading); }) ==
          "fit: a callback has taken a step or loaded a run; do so before or after `fit`, or in on_end");
  }
  loading.when = "end";
  CHECK(ct::fit(t, corpus(), options, loading).steps == 2);
  CHECK(t.steps() == 0);
}

TEST_CASE("an evaluation can be given up") {
  trainer t;
  int asked = 0;
  CHECK_FALSE(t.evaluate(corpus(), [&] { return ++asked == 3; }).has_value());
  CHECK(asked == 3);
  CHECK(t.evaluate(corpus(), [] { return false; })->loss == t.evaluate(corpus()).loss);
}

namespace {

/// Sends a SIGINT in the last evaluation, in the last save or at the end.
struct interrupts_the_end {
  enum class event { evaluation, save, end } when;
  bool also_stops = false;

  void on_evaluation(ct::fit_context& c) const { raise(event::evaluation, c); }
  void on_save(ct::fit_context& c) const { raise(event::save, c); }
  void on_end(ct::fit_context& c) const { raise(event::end, c); }

private:
  void raise(event now, ct::fit_context& c) const {
    if (now != when) return;
    std::raise(SIGINT);
    if (also_stops) c.stop();
  }
};

} // namespace

TEST_CASE("SIGINT after the last step interrupts as well: the program around fit is to stop too") {
  auto* const before = std::signal(SIGINT, SIG_DFL);
  using event = interrupts_the_end::event;
  for (auto const when : {event::evaluation, event::save, event::end})
    for (bool const also_stops : {false, true}) {
      CAPTURE(when);
      CAPTURE(also_stops);
      temporary_directory const directory;
      trainer t;
      auto const result = ct::fit(
          t, corpus(),
          {.steps = 2, .validation = &corpus(), .evaluate_every = 2, .directory = directory / "run", .log = nullptr},
          interrupts_the_end{.when = when, .also_stops = also_stops});
      CHECK(result.stop_reason == ct::stop_reason::interrupted);
      CHECK(result.steps == 2);
      CHECK(t.resume(directory / "run"));
    }
  std::signal(SIGINT, before);
}

TEST_CASE("calls that take no step leave the records of a run as they are") {
  temporary_directory const directory;
  ct::fit_options options{.steps = 2, .log = nullptr, .records = directory / "records"};
  trainer t;
  ct::fit(t, corpus(), options);
  auto const summary = ct::test::read_file(directory / "records/summary.json");
  auto const report = ct::test::read_file(directory / "records/report.html");
  auto const steps = ct::test::read_file(directory / "records/steps.jsonl");
  ct::fit(t, corpus(), options); // the run is complete
  trainer other;
  options.steps = 0;
  ct::fit(other, corpus(), options);
  options.steps = 4;
  struct {
    void on_start(ct::fit_context& c) { c.stop(); }
  } at_once;
  ct::fit(t, corpus(), options, at_once);
  CHECK(ct::test::read_file(directory / "records/summary.json") == summary);
  CHECK(ct::test::read_file(directory / "records/report.html") == report);
  CHECK(ct::test::read_file(directory / "records/steps.jsonl") == steps);
}
