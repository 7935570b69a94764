#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <constrain/io/json.hpp>
#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

// `fit` besides training: records, the best saved run, ends before the last step.

namespace ct = constrain;
using ct::test::sentence, ct::test::temporary_directory;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;
using trainer = ct::trainer<task>;

ct::data::corpus corpus() {
  std::string text;
  for (int i = 0; i < 40 * 8 + 3; ++i) text += static_cast<char>(i * 37 % 251);
  return ct::data::corpus::from_bytes(text);
}

std::vector<std::string> lines_of(std::string const& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void append(std::string const& path, std::string const& text) { std::ofstream(path, std::ios::app) << text; }

std::vector<float> weights_of(trainer const& t) {
  std::vector<float> all;
  for (auto const& p : t.parameters()) {
    std::vector<float> values(static_cast<std::size_t>(p.size()));
    p.copy_to(std::span(values));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

} // namespace

TEST_CASE("records: a line a step, also where a run goes on") {
  temporary_directory const directory;
  auto const text = corpus();
  auto const fit = [&](trainer& t, std::int64_t steps, std::string const& records) {
    return ct::fit(t, text,
                   {.steps = steps,
                    .validation = &text,
                    .evaluate_every = 2,
                    .directory = directory / "checkpoint",
                    .save_every = 2,
                    .log = nullptr,
                    .records = directory / records});
  };
  trainer whole;
  fit(whole, 6, "whole");
  trainer first;
  fit(first, 4, "run");
  // The process died after it had recorded more than it saved, amid a line.
  append(directory / "run/steps.jsonl", "{\"step\": 5, \"loss\": 1.0}\n{\"step\": 6, \"lo");
  append(directory / "run/steps.csv", "5,1.0\n6,1");
  trainer second;
  second.load(directory / "checkpoint");
  auto const result = fit(second, 6, "run");

  auto const json = lines_of(directory / "run/steps.jsonl"), expected = lines_of(directory / "whole/steps.jsonl");
  REQUIRE(json.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    auto const line = ct::io::json::parse(json[i], "steps.jsonl"),
               other = ct::io::json::parse(expected[i], "steps.jsonl");
    CHECK(line["step"].int64() == static_cast<std::int64_t>(i) + 1);
    for (auto const* name : {"loss", "gradient_norm", "learning_rate"}) CHECK(line[name].real() == other[name].real());
    CHECK(line["tokens"].int64() == 16);
    CHECK_FALSE(line["skipped"].boolean());
    CHECK(line.find("validation_loss").has_value() == (i % 2 == 1));
  }
  CHECK(ct::io::json::parse(json[5], "steps.jsonl")["validation_loss"].real() == result.validation->loss);

  auto const csv = lines_of(directory / "run/steps.csv");
  REQUIRE(csv.size() == 7);
  CHECK(csv[0] ==
        "step,loss,gradient_norm,learning_rate,seconds,tokens,tokens_per_second,skipped,validation_loss,accuracy");
  CHECK(csv[5].starts_with("5,"));
  CHECK(csv[5].ends_with(",0,,"));
  CHECK(csv[6].starts_with("6,"));

  std::ifstream in(directory / "run/summary.json");
  std::string const text_of_summary{std::istreambuf_iterator<char>(in), {}};
  auto const summary = ct::io::json::parse(text_of_summary, "summary.json");
  CHECK(summary["steps"].int64() == 6);
  CHECK(summary["loss"].real() == result.loss);
  CHECK(summary["stop_reason"].string() == "all steps are done");
  CHECK(summary["peak_bytes"].int64() == trainer::memory.peak.count());
}

TEST_CASE("tokens and valid labels a second are two figures, each the same wherever it is told") {
  temporary_directory const directory;
  std::string const bytes(40 * 8 + 3, 'x');
  std::vector<bool> given(bytes.size());
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = i % 4 != 0; // a quarter are labels
  trainer t;
  auto const log = std::fopen((directory / "log").c_str(), "w");
  REQUIRE(log != nullptr);
  auto const r =
      ct::fit(t, ct::data::corpus::from_bytes(bytes, given), {.steps = 5, .log = log, .records = directory / "run"});
  std::fclose(log);
  CHECK(r.tokens_per_second > 0);
  CHECK(r.labels_per_second == doctest::Approx(r.tokens_per_second / 4));
  auto const last = ct::io::json::parse(lines_of(directory / "run/steps.jsonl").back(), "steps.jsonl");
  auto const summary = ct::io::json::parse(ct::test::read_file(directory / "run/summary.json"), "summary.json");
  for (auto const& json : {last, summary}) {
    CHECK(json["tokens_per_second"].real() == r.tokens_per_second);
    CHECK(json["labels_per_second"].real() == r.labels_per_second);
  }
  CHECK(last["tokens"].int64() == 4);
  auto const page = ct::test::read_file(directory / "run/report.html");
  auto const fact = [&](char const* name, double value) {
    return page.find("<dt>" + std::string(name) + "</dt><dd>" + ct::detail::grouped(static_cast<std::int64_t>(value)) +
                     "</dd>") != std::string::npos;
  };
  CHECK(fact("tokens per second", r.tokens_per_second));
  CHECK(fact("valid labels per second", r.labels_per_second));
  auto const lines = lines_of(directory / "log");
  char rates[100];
  std::snprintf(rates, sizeof rates, " | %.0f tok/s | ", r.tokens_per_second);
  CHECK(lines[lines.size() - 2].find(rates) != std::string::npos);
  std::snprintf(rates, sizeof rates, " | %.0f tok/s | %.0f labels/s | ", r.tokens_per_second, r.labels_per_second);
  CHECK(lines.back().find(rates) != std::string::npos);
}

TEST_CASE("lines of some steps, records of all") {
  temporary_directory const directory;
  auto const text = corpus();
  auto const steps_said = [&](trainer& t, std::int64_t steps, ct::interval every) {
    auto const log = std::fopen((directory / "log").c_str(), "w");
    REQUIRE(log != nullptr);
    ct::fit(t, text,
            {.steps = steps, .validation = &text, .log = log, .log_every = every, .records = directory / "records"});
    std::fclose(log);
    std::string said;
    for (auto const& line : lines_of(directory / "log")) {
      auto const slash = line.find('/'); // "step 5/9 | ", and not the line of an evaluation
      if (line.starts_with("step ") && slash < line.find(' ', 5)) said += line.substr(5, slash - 5) + " ";
    }
    return said;
  };
  trainer t;
  CHECK(steps_said(t, 7, 3) == "3 6 ");
  CHECK(steps_said(t, 13, 3) == "9 12 "); // taken up again: the same steps
  CHECK(steps_said(t, 20, ct::part_of_run{1, 4}) == "15 20 ");
  CHECK(steps_said(t, 22, 0).empty());
  CHECK(lines_of(directory / "records/steps.jsonl").size() == 22);
  CHECK(lines_of(directory / "log").back().starts_with("stopped after step 22: all steps are done | "));
}

TEST_CASE("records: a directory that cannot be made") {
  trainer t;
  CHECK(sentence([&] { ct::fit(t, corpus(), {.steps = 1, .log = nullptr, .records = "/dev/null/records"}); }) ==
        "'/dev/null' cannot be created as a directory (File exists); remove it or choose another path");
  CHECK(t.steps() == 0);
}

TEST_CASE("the best checkpoint is kept, and no improvement ends the run") {
  temporary_directory const directory;
  auto const text = corpus();
  trainer t({.learning_rate = 3.0f}); // too large: after a first evaluation it does not get better for long
  auto const result = ct::fit(t, text,
                              {.steps = 400,
                               .validation = &text,
                               .evaluate_every = 1,
                               .directory = directory / "last",
                               .log = nullptr,
                               .best = directory / "best",
                               .patience = 3});
  CHECK(result.stop_reason == ct::stop_reason::no_improvement);
  CHECK(result.steps < ct::optimizer_steps(400));
  CHECK(t.state().evaluations_since_best == 3);
  trainer best, last;
  best.load(directory / "best"), last.load(directory / "last");
  CHECK(best.evaluate(text).loss == t.state().best_validation_loss);
  CHECK(best.steps().count() == result.steps.count() - 3);
  CHECK(last.steps() == result.steps);
  CHECK(last.state().evaluations_since_best == 3); // a resumed run counts on
  CHECK(last.state().best_validation_loss == t.state().best_validation_loss);
}

TEST_CASE("what needs a validation corpus says so") {
  temporary_directory const directory;
  trainer t;
  CHECK(sentence([&] { ct::fit(t, corpus(), {.steps = 1, .log = nullptr, .best = directory / "best"}); }) ==
        "fit: .best saves the run with the lowest validation loss, but .validation is not set; give a corpus or "
        "examples");
  CHECK(sentence([&] { ct::fit(t, corpus(), {.steps = 1, .log = nullptr, .patience = 2}); }) ==
        "fit: .patience counts evaluations, but .validation is not set; give a corpus or examples");
}

TEST_CASE("a validation corpus that cannot be read is refused before the first step") {
  auto const text = corpus();
  trainer t;
  auto const said = [&](ct::data::corpus const& validation) {
    return sentence([&] { ct::fit(t, text, {.steps = 3, .validation = &validation, .log = nullptr}); });
  };
  CHECK(said(ct::data::text_from("12345"))
            .starts_with("fit, .validation: the corpus has 5 tokens, but a context of 8 needs at least 9"));
  CHECK(said(ct::data::corpus::from_bytes(std::string(40, 'a'), std::vector<bool>(40, true))) ==
        "fit: the .validation corpus has no valid label, because its samples could only predict prompt tokens or "
        "padding; give a corpus with text to predict");
  CHECK(said(ct::data::random_tokens(100, 500)).find("the model's vocabulary has 256") != std::string::npos);
  CHECK(t.steps() == 0);
}

TEST_CASE("a thread that computes has a stack for signal handlers, whether it fits or steps") {
  std::thread([] {
    stack_t before{}, after{};
    ::sigaltstack(nullptr, &before);
    trainer t;
    for (auto const& batch : t.batches(corpus())) {
      t.step(batch);
      break;
    }
    ::sigaltstack(nullptr, &after);
    CHECK((before.ss_flags & SS_DISABLE) != 0);
    CHECK((after.ss_flags & SS_DISABLE) == 0);
  }).join();
}

TEST_CASE("SIGINT and SIGTERM end a run with its checkpoint saved") {
  auto const text = corpus();
  trainer whole;
  ct::fit(whole, text, {.steps = 8, .log = nullptr});
  for (int const signal : {SIGINT, SIGTERM}) {
    temporary_directory const directory;
    trainer t;
    // An installed handler, such as the test framework's, would also be called.
    struct sigaction before {
    }, none{}, after{};
    none.sa_handler = SIG_DFL;
    ::sigaction(signal, &none, &before);
    std::FILE* const log = std::tmpfile();
    auto const result =
        ct::fit(t, text, {.steps = 8, .directory = directory / "checkpoint", .log = log}, [&](ct::step_result const&) {
          if (t.steps() == 5) std::raise(signal);
        });
    CHECK(result.stop_reason == ct::stop_reason::interrupted);
    CHECK(result.steps == 5);
    std::rewind(log);
    char shown[16384]{};
    CHECK(std::fread(shown, 1, sizeof shown - 1, log) > 0);
    std::fclose(log);
    CHECK(std::string(shown).find("stopped after step 5: interrupted by a signal | ") != std::string::npos);
    CHECK(std::string(shown).find(" | saved in '") != std::string::npos);
    trainer resumed;
    resumed.load(directory / "checkpoint");
    ct::fit(resumed, text, {.steps = 8, .log = nullptr});
    CHECK(weights_of(resumed) == weights_of(whole));
    ::sigaction(signal, &before, &after);
    CHECK((after.sa_handler == SIG_DFL)); // outside of fit it does what it did
  }
}

TEST_CASE("the last checkpoints are kept, and the newest whole one is taken") {
  temporary_directory const directory;
  auto const text = corpus();
  trainer whole, first, second;
  ct::fit(whole, text, {.steps = 8, .log = nullptr});
  CHECK_FALSE(first.resume(directory / "run"));
  ct::fit(first, text, {.steps = 7, .directory = directory / "run", .save_every = 2, .log = nullptr, .keep_last = 3});
  CHECK(ct::saved_series(directory / "run").steps() == std::vector<std::int64_t>{7, 6, 4});
  auto const damaged = directory / "run/step-7/model.safetensors";
  std::filesystem::resize_file(damaged, 100);
  std::FILE* const log = std::tmpfile();
  CHECK(second.resume(directory / "run", log));
  std::rewind(log);
  char said[1024]{};
  CHECK(std::fread(said, 1, sizeof said - 1, log) > 0);
  std::fclose(log);
  CHECK(std::string(said).find("step-7/model.safetensors' has 100 bytes, but ") != std::string::npos);
  CHECK(std::string(said).ends_with("use another copy of the directory; the next older saved run is tried\n"));
  CHECK(second.steps() == 6);
  CHECK(std::filesystem::file_size(damaged) == 100); // left alone
  ct::fit(second, text, {.steps = 8, .log = nullptr});
  CHECK(weights_of(second) == weights_of(whole));
  // None is whole.
  for (auto const* step : {"4", "6"}) std::filesystem::resize_file(directory / "run/step-" + step + "/state.json", 3);
  trainer third;
  CHECK(sentence([&] { third.resume(directory / "run", nullptr); }).find("step-4/state.json' has 3 bytes") !=
        std::string::npos);
  CHECK(third.steps() == 0);
}

TEST_CASE("saved runs with weights in several files are resumed, and their weights are loaded") {
  temporary_directory const directory;
  auto const text = corpus();
  trainer whole, first, second, best, tuned;
  ct::fit(whole, text, {.steps = 5, .log = nullptr});
  ct::fit(first, text,
          {.steps = 3,
           .validation = &text,
           .evaluate_every = 3,
           .directory = directory / "run",
           .save_every = 1,
           .log = nullptr,
           .keep_last = 2,
           .max_shard_size = ct::bytes(4000),
           .best = directory / "best"});
  for (auto const* const name : {"run/step-2", "run/step-3", "best"}) {
    CHECK(std::filesystem::exists(directory / name + "/model.safetensors.index.json"));
    CHECK_FALSE(std::filesystem::exists(directory / name + "/model.safetensors"));
  }
  CHECK_FALSE(std::filesystem::exists(directory / "run/step-1"));
  tuned.load_pretrained(directory / "run/step-3");
  best.load(directory / "best");
  CHECK(weights_of(tuned) == weights_of(first));
  CHECK(weights_of(best) == weights_of(first));
  REQUIRE(second.resume(directory / "run"));
  ct::fit(second, text, {.steps = 5, .directory = directory / "last", .log = nullptr});
  CHECK(weights_of(second) == weights_of(whole));
  CHECK(std::filesystem::exists(directory / "last/model.safetensors"));
}

TEST_CASE("a run that died in its first save begins anew") {
  temporary_directory const directory;
  std::filesystem::create_directories(directory / "run/.step-2.partial-1");
  trainer t;
  CHECK_FALSE(t.resume(directory / "run"));
}

TEST_CASE("the learning rate falls where the loss does not, and the best weights come back") {
  temporary_directory const directory;
  auto const text = corpus();
  trainer t({.learning_rate = 3.0f});
  auto const result = ct::fit(t, text,
                              {.steps = 40,
                               .validation = &text,
                               .evaluate_every = ct::part_of_run{1, 20},
                               .directory = directory / "last",
                               .log = nullptr,
                               .best = directory / "best",
                               .load_best = true,
                               .patience = 5,
                               .plateau = 2,
                               .plateau_factor = 0.5});
  CHECK(result.stop_reason == ct::stop_reason::no_improvement);
  CHECK(t.state().evaluations_since_best == 5);
  CHECK(t.state().learning_rate_factor <= 0.25); // twice at least
  CHECK(t.learning_rate() == 3.0 * t.state().learning_rate_factor);
  CHECK(t.evaluate(text).loss == t.state().best_validation_loss);
  trainer last({.learning_rate = 3.0f});
  last.load(directory / "last");
  CHECK(last.learning_rate() == t.learning_rate());
  CHECK(last.evaluate(text).loss == result.validation->loss);
  CHECK(sentence([&] { ct::fit(t, text, {.steps = 1, .log = nullptr, .load_best = true}); }) ==
        "fit: .load_best loads the weights saved in .best, but .best is empty; name a directory");
}

TEST_CASE("the report of a run that was taken up again covers all of it") {
  temporary_directory const directory;
  auto const text = corpus();
  ct::fit_options options{.steps = 3, .directory = directory / "run", .log = nullptr, .records = directory / "records"};
  trainer first, second;
  ct::fit(first, text, options);
  second.resume(directory / "run");
  options.steps = 6;
  ct::fit(second, text, options);
  auto const page = ct::test::read_file(directory / "records/report.html");
  CHECK(page.find("class=\"resumed\"") != std::string::npos);
  CHECK(page.find("Too early to say") != std::string::npos);
  CHECK(page.find("M64.0 ") != std::string::npos); // from the first step on

  // A line is damaged during the run.
  auto const steps = directory / "records/steps.jsonl";
  options.steps = 8;
  bool spoiled = false;
  ct::fit(second, text, options, [&](ct::step_result const&) {
    if (spoiled) return;
    spoiled = true;
    auto content = ct::test::read_file(steps);
    ct::test::write_file(steps, content.replace(content.find("\"loss\""), 6, "\"lost\""));
  });
  CHECK(ct::test::read_file(directory / "records/report.html").find("class=\"resumed\"") != std::string::npos);
  CHECK(ct::test::read_file(directory / "records/summary.json").find("\"steps\": 8") != std::string::npos);
}
