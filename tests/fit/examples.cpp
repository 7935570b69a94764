#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

// fit and compare train on examples: a classifier of three inputs, and a regression.

namespace ct = constrain;
using ct::data::examples;
using ct::test::sentence, ct::test::temporary_directory;

namespace {

using integers = std::vector<std::int32_t>;

// BERT in little: attention that ignores what is behind each sequence's length, and a pooled first token.
struct small_bert {
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"}, {.name = "segments"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value segments, ct::value lengths) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 8, .width = 8}) +
             ct::embedding("segment", segments, {.vocabulary = 2, .width = 8});
    x = ct::layer_norm("norm", ct::position_embedding("position", x, {.context = 4}));
    auto const seen = ct::self_attention(ct::linear("qkv", x, 24), lengths, {.heads = 2, .causal = false});
    x = ct::layer_norm("norm_1", x + ct::linear("projection", seen, 8));
    return ct::linear("head", ct::tanh(ct::linear("pooler", ct::select_token(x, 0), 8)), 2);
  }
};
using task = ct::task<small_bert{}, ct::classification, ct::micro_batch{.sequences = 4, .tokens = 4}>;
using trainer = ct::trainer<task, ct::accumulate<2>>;

/// The class of a sequence is whether its tokens, up to its length, hold a 7. Tokens after the length do not count.
struct sentences {
  integers tokens, segments, lengths, labels;
  explicit sentences(int count, unsigned seed = 1) {
    auto const draw = [&](unsigned below) {
      seed = seed * 1664525u + 1013904223u;
      return static_cast<std::int32_t>((seed >> 16) % below);
    };
    for (int i = 0; i < count; ++i) {
      lengths.push_back(2 + draw(3)), labels.push_back(0);
      for (int k = 0; k < 4; ++k) {
        tokens.push_back(draw(3) == 0 ? 7 : draw(7)), segments.push_back(k / 2);
        if (k < lengths.back() && tokens.back() == 7) labels.back() = 1;
      }
    }
  }
  examples all() const { return {{tokens, segments, lengths}, labels}; }
};

ct::run_options const run{.seed = 4, .clip_norm = 1, .schedule = ct::schedule::linear{.warmup = 5, .steps = 200}};
trainer::hyper const hyper{.learning_rate = 1e-2f};

struct line {
  constexpr auto inputs() const {
    return std::array{
        ct::port_spec{.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  }
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 1); }
};
using regression = ct::task<line{}, ct::mean_squared_error, ct::micro_batch{.sequences = 4}>;

struct points {
  std::vector<double> x, y;
  explicit points(int count) {
    for (int i = 0; i < count; ++i) {
      x.insert(x.end(), {std::sin(i), std::cos(3 * i)});
      y.push_back(2 * x[x.size() - 2] - x.back() + 3);
    }
  }
  examples all() const { return {x, y}; }
};

} // namespace

TEST_CASE("a classifier of three inputs learns by fit") {
  sentences const a(500);
  auto const parts = a.all().split(0.2, 3);
  trainer t(hyper, run);
  auto const before = t.evaluate(parts.validation);
  CHECK(before.tokens == 100);
  int evaluations = 0;
  struct hooks {
    int& evaluations;
    void on_evaluation(ct::fit_context&) { ++evaluations; }
    void on_end(ct::fit_context& c) { CHECK(c.epoch == 3); }
  };
  auto const r =
      ct::fit(t, parts.train, {.epochs = 3, .validation = &parts.validation, .evaluate_every = 50, .log = nullptr},
              hooks{evaluations});
  CHECK(r.steps == 150); // 400 examples, 8 in a step
  CHECK(evaluations == 3);
  REQUIRE(r.validation.has_value());
  CHECK(r.validation->accuracy > 0.95);
  CHECK(r.validation->loss < before.loss / 3);
}

TEST_CASE("fit stopped in the middle of an epoch and resumed writes the same bytes") {
  sentences const a(37); // 4.6 steps an epoch
  auto const all = a.all();
  temporary_directory const directory;
  trainer whole(hyper, run);
  ct::fit(whole, all, {.steps = 11, .directory = directory / "whole", .log = nullptr});
  trainer first(hyper, run);
  ct::fit(first, all, {.steps = 7, .directory = directory / "parts", .log = nullptr});
  trainer second(hyper, {.clip_norm = run.clip_norm, .schedule = run.schedule});
  REQUIRE(second.resume(directory / "parts", nullptr));
  CHECK(second.state().position == ct::data::position{1, 19});
  sentences const again(37);
  ct::fit(second, again.all(), {.steps = 11, .directory = directory / "parts", .log = nullptr});
  int files = 0;
  for (auto const* const name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    CAPTURE(name);
    auto const bytes = ct::test::read_file(directory / ("whole/" + std::string(name)));
    CHECK(!bytes.empty());
    CHECK(bytes == ct::test::read_file(directory / ("parts/" + std::string(name))));
    ++files;
  }
  CHECK(files == 3);
}

TEST_CASE("epochs are counted in examples") {
  sentences const a(37);
  trainer t(hyper, run);
  auto const all = a.all();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(ct::steps_of_epochs(t, 2, all, ct::data::tail::carry, most) == 10); // 74 of 8
  CHECK(ct::steps_of_epochs(t, 2, all, ct::data::tail::drop, most) == 8);
  CHECK(ct::steps_of_epochs(t, 2, all, ct::data::tail::pad, most) == 10);
  CHECK(ct::fit(t, all, {.epochs = 2, .log = nullptr, .tail = ct::data::tail::drop}).steps == 8);
}

TEST_CASE("two strategies are compared on a regression") {
  points const p(200);
  auto const all = p.all();
  ct::compare_options const options{.tokens = 4000, .seed = 1, .validation_fraction = 0.1};
  auto const rows = ct::compare<regression>(
      all, options, ct::strategy<ct::policies<ct::optimizer::sgd>>{.hyper = {.learning_rate = 0.1f}},
      ct::strategy<ct::policies<ct::precision::fp64>>{.hyper = {.learning_rate = 1e-5f}, .name = "slow"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].name == "fp32, sgd");
  CHECK(rows[0].loss < 1e-6);
  CHECK(rows[1].loss > 1);
  CHECK(rows[0].tokens_per_second > 0);
  // The loss is that of the validation part, after as many steps of the training part.
  auto const parts = all.split(0.1);
  ct::trainer<regression, ct::precision::fp64> t({.learning_rate = 1e-5f}, {.seed = 1});
  ct::fit(t, parts.train, {.steps = 1000, .log = nullptr});
  CHECK(t.evaluate(parts.validation).loss == rows[1].loss);
  auto common = options;
  common.learning_rate = 0.1;
  CHECK(ct::compare<regression, ct::policies<ct::optimizer::sgd>>(all, common)[0].loss == rows[0].loss);
  // At most so many "tokens" of validation: here, examples.
  common.validation_tokens = 3;
  auto const three = ct::compare<regression, ct::policies<ct::optimizer::sgd>>(all, common)[0].loss;
  CHECK(three != rows[0].loss);
  CHECK(sentence([&] { ct::compare<regression, ct::policies<>>(points(20).all()); }) ==
        "compare: this part of the 20 examples is empty; give more examples, or a larger .validation_fraction");
  CHECK(sentence([&] { ct::compare<regression, ct::policies<>>(points(20).all(), {.validation_fraction = 1}); }) ==
        "compare: this part of the 20 examples is empty; give more examples, or a smaller .validation_fraction");
}

TEST_CASE("fit and compare count an example of several inputs as the tokens of one sequence") {
  sentences const a(100);
  auto const all = a.all();
  auto const rows = ct::compare<task>(all, {.tokens = 6 * 32, .seed = 1, .validation_fraction = 0.1},
                                      ct::strategy<ct::policies<ct::accumulate<2>>>{.hyper = hyper});
  auto const parts = all.split(0.1);
  trainer t(hyper, {.seed = 1});
  auto const r = ct::fit(t, parts.train, {.steps = 6, .log = nullptr}); // 8 examples of 4 tokens in a step
  CHECK(t.evaluate(parts.validation).loss == rows[0].loss);
  CHECK(r.tokens_per_second == doctest::Approx(4 * r.labels_per_second));
}

TEST_CASE("a regression has no accuracy in the log and in the records") {
  points const p(40);
  auto const all = p.all();
  temporary_directory const directory;
  ct::trainer<regression> t;
  std::FILE* const log = std::tmpfile();
  REQUIRE(log != nullptr);
  ct::fit(t, all, {.steps = 2, .validation = &all, .log = log, .records = directory / "records"});
  std::rewind(log);
  std::string shown(16384, '\0');
  shown.resize(std::fread(shown.data(), 1, shown.size(), log));
  std::fclose(log);
  for (auto const& text : {shown, ct::test::read_file(directory / "records/summary.json"),
                           ct::test::read_file(directory / "records/steps.jsonl"),
                           ct::test::read_file(directory / "records/report.html")}) {
    CAPTURE(text);
    CHECK(text.find("validation") != std::string::npos);
    CHECK(text.find("accuracy") == std::string::npos);
    CHECK(text.find("perplexity") == std::string::npos);
    CHECK(text.find("nan") == std::string::npos);
  }
}

TEST_CASE("examples that do not fit end fit before the first step") {
  sentences const a(20);
  auto const all = a.all();
  trainer t;
  auto const said = [&](examples const& training, ct::data::dataset_pointer validation) {
    return sentence([&] { ct::fit(t, training, {.steps = 3, .validation = validation, .log = nullptr}); });
  };
  auto const text = ct::data::corpus::from_bytes("a corpus of text");
  CHECK(said(all, &text) ==
        "fit: .validation and the training data are of different kinds; give examples as .validation");
  CHECK(said({a.tokens, a.labels}, nullptr).starts_with("fit: 1 input was given, but the model takes 3"));
  examples const two({a.tokens, a.segments}, a.labels);
  CHECK(said(all, &two).starts_with("fit, .validation: 2 inputs were given, but the model takes 3"));
  integers const ignored(20, ct::ignored_label);
  examples const unlabeled({a.tokens, a.segments, a.lengths}, ignored);
  CHECK(said(unlabeled, nullptr).starts_with("fit: the examples have no valid label"));
  CHECK(said(all, &unlabeled) ==
        "fit: the .validation examples have no valid label, because every label is ignored; give "
        "examples with labels to predict");
  auto longer = a;
  longer.lengths[6] = 5;
  CHECK(said(longer.all(), nullptr) ==
        "fit: the input \"lengths\" of example 6 is 5 at position 0, outside [0, 5); pass "
        "integers from 0 to 4");
  CHECK(t.steps() == 0);
  using gpt = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 4, .vocabulary = 256, .context = 4}, ct::causal_lm,
                       ct::micro_batch{.sequences = 2}>;
  ct::trainer<gpt> u;
  CHECK(sentence([&] { ct::fit(u, text, {.steps = 3, .validation = &all, .log = nullptr}); }) ==
        "fit: .validation and the training data are of different kinds; give a corpus as .validation");
}
