#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>
#include <string>

// A run that continues with other data, as when a model is pretrained and then fine-tuned.

namespace ct = constrain;
using namespace constrain::test;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

ct::data::corpus corpus(int factor) {
  std::string text;
  for (int i = 0; i < 40 * 8 + 3; ++i) text += static_cast<char>(i * factor % 251);
  return ct::data::corpus::from_bytes(text);
}

/// `fit` with an evaluation after every second step, and its log.
struct logged_fit {
  ct::fit_result result;
  std::string log;

  logged_fit(trainer& t, ct::data::corpus const& text, ct::data::corpus const& validation, ct::fit_options options) {
    temporary_directory const directory;
    auto* const file = std::fopen((directory / "log").c_str(), "w");
    options.validation = &validation, options.evaluate_every = 2, options.log = file, options.log_every = 0;
    result = ct::fit(t, text, options);
    std::fclose(file);
    log = read_file(directory / "log");
  }
  bool says(std::string const& text) const { return log.find(text) != std::string::npos; }
};

/// Trains on an easy text, so that the lowest validation loss is far below any loss of another text.
void pretrain(trainer& t) {
  auto const easy = ct::data::corpus::from_bytes(std::string(200, 'x'));
  logged_fit const first(t, easy, easy, {.steps = 40});
  REQUIRE(t.state().best_validation_loss < 0.5);
}

} // namespace

TEST_CASE("other validation data: the lowest loss and the count of evaluations begin anew, resumed or not") {
  temporary_directory const directory;
  auto const text = ct::data::corpus::from_bytes(std::string(200, 'y'));
  trainer t({.learning_rate = 1e-2f}, {.seed = 4}), resumed({.learning_rate = 1e-2f}, {.seed = 4});
  pretrain(t);
  t.save(directory / "pretrained"), resumed.load(directory / "pretrained");
  for (auto* const each : {&t, &resumed}) {
    logged_fit const next(
        *each, text, text,
        {.steps = 50, .best = directory / "best", .patience = 3, .plateau = 1, .records = directory / "records"});
    REQUIRE(next.result.validation.has_value());
    CHECK(next.result.steps == 50); // the loss falls, so that neither .patience nor .plateau acts
    CHECK(each->state().learning_rate_factor == 1);
    CHECK(each->state().evaluations_since_best == 0);
    CHECK(each->state().best_validation_loss == next.result.validation->loss);
    CHECK(next.says(ct::detail::formatted(", lowest %.4f", next.result.validation->loss)));
    auto const summary = read_file(directory / "records/summary.json");
    auto const lowest = ct::io::json::parse(summary, "summary.json")["best_validation_loss"].real<double>();
    CHECK(lowest == next.result.validation->loss);
    trainer best;
    best.load(directory / "best");
    CHECK(best.steps() == 50);
  }
}

TEST_CASE("the log tells where a run continues: at its position in the same data, or at the beginning of other data") {
  auto const text = corpus(37), other = corpus(91);
  trainer t;
  CHECK_FALSE(logged_fit(t, text, text, {.steps = 2}).says(" after step 0"));
  CHECK(logged_fit(t, text, text, {.steps = 3}).says("\nresumes after step 2, epoch 0, sample 4\n"));
  CHECK(
      logged_fit(t, other, text, {.steps = 5}).says("\ncontinues after step 3 with other data, from its beginning\n"));
  CHECK(t.state().position.sample == 4);
  CHECK(logged_fit(t, other, other, {.steps = 6}).says("\nresumes after step 5, epoch 0, sample 4\n"));
}

TEST_CASE("other validation data: lost patience and a missed evaluation are of the earlier data only") {
  auto const text = corpus(37), validation = corpus(91);
  trainer t({.learning_rate = 0.1f}, {.seed = 4});
  ct::fit_options const options{.steps = 40, .patience = 1};
  REQUIRE(logged_fit(t, text, validation, options).result.stop_reason == ct::stop_reason::no_improvement);
  auto const steps = t.steps();
  CHECK(logged_fit(t, text, validation, options).result.steps == steps);
  CHECK(logged_fit(t, text, text, options).result.steps > steps);

  auto* const before = std::signal(SIGINT, SIG_DFL);
  trainer interrupted;
  ct::fit_options const two{.steps = 2, .validation = &validation, .log = nullptr};
  ct::fit(interrupted, text, two, [&](ct::step_result const&) {
    if (interrupted.steps() == 2) std::raise(SIGINT);
  });
  std::signal(SIGINT, before);
  REQUIRE(interrupted.state().missed_evaluation == 2);
  auto const lowest = interrupted.state().best_validation_loss;
  CHECK_FALSE(logged_fit(interrupted, text, text, two).result.validation.has_value());
  CHECK(interrupted.state().missed_evaluation == 2); // no step, so nothing begins anew
  CHECK(interrupted.state().best_validation_loss == lowest);
  CHECK(logged_fit(interrupted, text, validation, two).result.validation.has_value());
  CHECK(interrupted.state().missed_evaluation == 0);
}
