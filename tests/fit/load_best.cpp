#include "sentence.hpp"
#include "temporary_directory.hpp"
#include "values_of.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// The best saved run at the end of `fit`, and runs that ended early, with their evaluations.

namespace ct = constrain;
using namespace constrain::test;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
template <class... policies> using trainer_with = ct::trainer<task, policies...>;

ct::data::corpus corpus(int factor) {
  std::string text;
  for (int i = 0; i < 40 * 8 + 3; ++i) text += static_cast<char>(i * factor % 251);
  return ct::data::corpus::from_bytes(text);
}

/// The learning rate of a run that learns a text too fast for the validation text.
template <class trainer> typename trainer::hyper fast() {
  typename trainer::hyper h;
  if constexpr (requires { h.learning_rate; }) h.learning_rate = 0.1f;
  else h.base.learning_rate = 0.1f;
  return h;
}

ct::fit_options overfitting(std::string const& best, ct::data::corpus const& validation) {
  return {.steps = 12, .validation = &validation, .evaluate_every = 1, .log = nullptr, .best = best, .load_best = true};
}

} // namespace

TEST_CASE_TEMPLATE("load_best: an evaluation afterwards has the lowest loss, also with averages", optimizer,
                   ct::optimizer::adamw, ct::optimizer::averaged<ct::optimizer::adamw>) {
  temporary_directory const directory;
  auto const text = corpus(37), validation = corpus(91);
  using trainer = trainer_with<optimizer>;
  trainer t(fast<trainer>(), {.seed = 4});
  auto const result = ct::fit(t, text, overfitting(directory / "best", validation));
  auto const lowest = t.state().best_validation_loss;
  REQUIRE(result.validation.has_value());
  REQUIRE(result.validation->loss > lowest);
  CHECK(t.evaluate(validation).loss == lowest);
  CHECK(t.steps() == 12);
  CHECK(t.state().evaluations_since_best > 0);
}

TEST_CASE("load_best: a run without an evaluation does not load the best weights of another run") {
  temporary_directory const directory;
  auto const text = corpus(37), validation = corpus(91);
  using trainer = trainer_with<>;
  auto options = overfitting(directory / "best", validation);
  trainer other({}, {.seed = 1});
  ct::fit(other, text, options);
  trainer t({}, {.seed = 2}), same({}, {.seed = 2});
  struct {
    void on_start(ct::fit_context& c) { c.stop(); }
  } at_once;
  ct::fit(t, text, options, at_once);
  CHECK(values_of(t) == values_of(same));
}

TEST_CASE("load_best: what this run did not save at its lowest loss is refused, and nothing is loaded") {
  temporary_directory const directory;
  auto const text = corpus(37), validation = corpus(91);
  using trainer = trainer_with<>;
  auto options = overfitting(directory / "other", validation);
  trainer other({.learning_rate = 0.1f}, {.seed = 1}), better({.learning_rate = 0.03f}, {.seed = 2});
  ct::fit(other, text, options);
  options.best = directory / "better";
  ct::fit(better, text, options);
  trainer t({.learning_rate = 0.1f}, {.seed = 2}), resumed({.learning_rate = 0.1f});
  options.best = directory / "own";
  ct::fit(t, text, {.steps = 12, .validation = &validation, .evaluate_every = 1, .log = nullptr, .best = options.best});
  REQUIRE(t.state().evaluations_since_best > 0);
  auto const last = values_of(t);
  t.save(directory / "run"), t.save(directory / "not best");
  REQUIRE(better.state().best_validation_loss < t.state().best_validation_loss);
  for (auto const* const name : {"other", "better", "none", "not best"}) {
    options.best = directory / name;
    auto const said = sentence([&] { ct::fit(t, text, options); });
    CHECK(said == "fit: .load_best loads the weights that the run had when its validation loss was lowest (" +
                      ct::detail::number_text(t.state().best_validation_loss) + "), but .best '" + options.best +
                      "' does not hold them; give the .best of the call that reached this loss, if it still exists, "
                      "or omit .load_best");
    CHECK(values_of(t) == last);
  }
  options.best = directory / "own", options.steps = 13; // a resumed run loads what it saved before
  resumed.load(directory / "run");
  ct::fit(resumed, text, options);
  CHECK(resumed.evaluate(validation).loss == t.state().best_validation_loss);
}

TEST_CASE("patience: a run that has lost it ends at once when it is resumed, unless there is more") {
  temporary_directory const directory;
  auto const text = corpus(37), validation = corpus(91);
  using trainer = trainer_with<>;
  ct::fit_options options{.steps = 40,
                          .validation = &validation,
                          .evaluate_every = 1,
                          .directory = directory / "run",
                          .log = nullptr,
                          .patience = 3};
  auto const fit = [&] {
    trainer t({.learning_rate = 0.1f}, {.seed = 4});
    t.resume(directory / "run");
    return ct::fit(t, text, options);
  };
  auto const first = fit();
  REQUIRE(first.stop_reason == ct::stop_reason::no_improvement);
  REQUIRE(first.steps < 40);
  auto const again = fit();
  CHECK(again.stop_reason == ct::stop_reason::no_improvement);
  CHECK(again.steps == first.steps);
  options.patience = 4;
  CHECK(fit().steps == first.steps.count() + 1);
}

TEST_CASE("patience: an evaluation that a signal prevented is made up for before patience is checked") {
  auto* const before = std::signal(SIGINT, SIG_DFL);
  auto const text = corpus(37);
  ct::run_options const run{.seed = 4, .schedule = [](ct::optimizer_steps n) { return n < 3 ? 0.0 : 1.0; }};
  trainer_with<> t({.learning_rate = 0.01f}, run);
  ct::fit_options options{.steps = 6, .validation = &text, .evaluate_every = 1, .log = nullptr};
  ct::fit(t, text, options, [&](ct::step_result const&) {
    if (t.steps() == 4) std::raise(SIGINT); // after the first step that changes the weights
  });
  std::signal(SIGINT, before);
  REQUIRE(t.state().evaluations_since_best == 2);
  REQUIRE(t.state().missed_evaluation == 4);
  options.patience = 2;
  auto const result = ct::fit(t, text, options);
  CHECK(result.stop_reason != ct::stop_reason::no_improvement);
  CHECK(result.steps == 6);
}

TEST_CASE("a signal when an evaluation is due: the resumed run equals the uninterrupted one") {
  auto* const before = std::signal(SIGINT, SIG_DFL);
  temporary_directory const directory;
  auto const text = corpus(37), validation = corpus(91);
  using trainer = trainer_with<>;
  ct::fit_options options{.steps = 8,
                          .validation = &validation,
                          .evaluate_every = 2,
                          .log = nullptr,
                          .best = directory / "best",
                          .plateau = 1,
                          .plateau_factor = 0.5};
  trainer whole({.learning_rate = 0.1f}, {.seed = 4});
  auto const expected = ct::fit(whole, text, options);
  options.directory = directory / "run";
  for (std::int64_t const interrupted_at : {4, 5, 8}) {
    CAPTURE(interrupted_at);
    trainer first({.learning_rate = 0.1f}, {.seed = 4}), resumed({.learning_rate = 0.1f});
    ct::fit(first, text, options, [&](ct::step_result const&) {
      if (first.steps() == interrupted_at) std::raise(SIGINT);
    });
    REQUIRE(first.steps() == interrupted_at);
    REQUIRE(resumed.resume(directory / "run"));
    auto const result = ct::fit(resumed, text, options);
    CHECK(result.validation->loss == expected.validation->loss);
    for (int again = 0; again < 2; ++again) { // what is saved is complete
      CHECK(values_of(resumed) == values_of(whole));
      CHECK(resumed.state().best_validation_loss == whole.state().best_validation_loss);
      CHECK(resumed.state().evaluations_since_best == whole.state().evaluations_since_best);
      CHECK(resumed.state().learning_rate_factor == whole.state().learning_rate_factor);
      CHECK(resumed.state().missed_evaluation == 0);
      REQUIRE(resumed.resume(directory / "run"));
    }
  }
  std::signal(SIGINT, before);
}

TEST_CASE("load_best: a run that a signal ends keeps its last weights, and the resumed run loads the best ones") {
  auto* const before = std::signal(SIGINT, SIG_DFL);
  temporary_directory const directory;
  auto const text = corpus(37), validation = corpus(91);
  using trainer = trainer_with<>;
  auto options = overfitting(directory / "best", validation);
  trainer whole(fast<trainer>(), {.seed = 4}), last(fast<trainer>(), {.seed = 4});
  ct::fit(whole, text, options);
  options.directory = directory / "run";
  trainer first(fast<trainer>(), {.seed = 4}), resumed(fast<trainer>());
  auto const interrupt_at = [](trainer& t, std::int64_t step) {
    return [&t, step](ct::step_result const&) {
      if (t.steps() == step) std::raise(SIGINT);
    };
  };
  // Without its best weights, too: they may be those of a later step, which was lost.
  std::filesystem::rename(directory / "best", directory / "moved");
  ct::fit(last, text, {.steps = 7, .log = nullptr});
  auto const with_lost_best = [&](ct::step_result const& r) {
    if (first.steps() == 7) std::filesystem::remove_all(directory / "best");
    interrupt_at(first, 7)(r);
  };
  auto const result = ct::fit(first, text, options, with_lost_best);
  CHECK(result.stop_reason == ct::stop_reason::interrupted);
  CHECK(values_of(first) == values_of(last));
  std::filesystem::rename(directory / "moved", directory / "best");
  REQUIRE(resumed.resume(directory / "run"));
  ct::fit(resumed, text, options);
  CHECK(values_of(resumed) == values_of(whole));
  std::signal(SIGINT, before);
}

TEST_CASE("keep_last: a complete run removes what an earlier call had left") {
  temporary_directory const directory;
  auto const text = corpus(37);
  ct::fit_options const options{
      .steps = 4, .directory = directory / "run", .save_every = 1, .log = nullptr, .keep_last = 1};
  trainer_with<> t, resumed;
  struct {
    void on_save(ct::fit_context& c) {
      if (c.step == 4) throw ct::error("the disk of the callback is full");
    }
  } failing;
  CHECK(sentence([&] { ct::fit(t, text, options, failing); }) == "the disk of the callback is full");
  CHECK(ct::saved_series(options.directory).steps() == std::vector<std::int64_t>{4, 3});
  REQUIRE(resumed.resume(options.directory));
  CHECK(ct::fit(resumed, text, options).steps == 4);
  CHECK(ct::saved_series(options.directory).steps() == std::vector<std::int64_t>{4});
}

TEST_CASE("an error about the data leaves the records of a run as they are") {
  temporary_directory const directory;
  auto const text = corpus(37);
  ct::fit_options options{.steps = 2, .log = nullptr, .records = directory / "records"};
  trainer_with<> t, next;
  ct::fit(t, text, options);
  auto const steps = read_file(directory / "records/steps.jsonl");
  options.tail = ct::data::tail::drop;
  auto const little = ct::data::corpus::from_bytes("one sample");
  CHECK(sentence([&] { ct::fit(next, little, options); }).find("tail::drop would drop") != std::string::npos);
  CHECK(read_file(directory / "records/steps.jsonl") == steps);
}
