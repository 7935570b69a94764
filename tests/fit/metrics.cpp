#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <constrain/io/json.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

// The metrics of an objective in `evaluate`, in the records of `fit` and in its log.

namespace ct = constrain;
using ct::data::examples;
using ct::test::temporary_directory;

namespace {

using integers = std::vector<std::int32_t>;

struct bag_of_words {
  int classes;
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::mean(ct::embedding("token", tokens, {.vocabulary = 12, .width = 8}), ct::axis::tokens);
    return ct::linear("head", x, classes);
  }
};
struct first_class {
  static constexpr char const* name = "labels_of_class_0";
  static double of(ct::class_counts const& c) { return c.labelled(0); }
};
struct own_objective : ct::classification {
  using metrics = ct::metrics<first_class, ct::macro_f1>;
};
/// A second label that is a real number, so that no row of a micro-batch can be padded.
struct with_scales : ct::classification {
  static constexpr ct::port_spec labels[] = {
      {.name = "classes", .each = ct::per::row},
      {.name = "scales", .type = ct::port_type::real, .each = ct::per::sequence, .features = 3}};
  constexpr ct::value operator()(ct::value logits, ct::value classes, ct::value scales) const {
    return ct::cross_entropy(logits * scales, classes);
  }
};
struct without_metrics {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const { return ct::cross_entropy(logits, labels); }
};

struct tokens_with_metrics : ct::causal_lm {
  using metrics = ct::metrics<ct::macro_f1>;
};
using of_tokens = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 400, .context = 16},
                           tokens_with_metrics, ct::micro_batch{.sequences = 16}>;

template <int classes, class objective = ct::classification>
using task = ct::task<bag_of_words{classes}, objective, ct::micro_batch{.sequences = 4, .tokens = 3}>;

/// The class of an example is its largest token modulo the number of classes.
struct bags {
  integers tokens, labels;
  bags(int count, int classes, std::uint32_t seed = 1) {
    for (int i = 0; i < count; ++i) {
      std::int32_t most = 0;
      for (int k = 0; k < 3; ++k) {
        seed = seed * 1664525u + 1013904223u;
        tokens.push_back(static_cast<std::int32_t>((seed >> 16) % 12));
        most = std::max(most, tokens.back());
      }
      labels.push_back(most % classes);
    }
  }
  examples all() const { return {tokens, labels}; }
};

/// Macro F1 from predictions, by its definition.
double macro_f1_of(integers const& predicted, integers const& labels, int classes) {
  double sum = 0, used = 0;
  for (int c = 0; c < classes; ++c) {
    double correct = 0, all = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] == ct::ignored_label) continue;
      correct += predicted[i] == c && labels[i] == c, all += (predicted[i] == c) + (labels[i] == c);
    }
    if (all > 0) sum += 2 * correct / all, ++used;
  }
  return sum / used;
}

template <class trainer> integers predictions_of(trainer& t, bags const& b) {
  integers predicted;
  for (std::size_t first = 0; first < b.labels.size(); first += 4) {
    integers rows(12);
    std::copy_n(b.tokens.begin() + static_cast<std::ptrdiff_t>(3 * first),
                3 * std::min<std::size_t>(4, b.labels.size() - first), rows.begin());
    auto const y = t.predict(rows);
    auto const classes = static_cast<std::ptrdiff_t>(y.shape.features());
    for (std::ptrdiff_t i = 0; i < 4 && predicted.size() < b.labels.size(); ++i) {
      auto const row = y.logits.begin() + i * classes;
      predicted.push_back(static_cast<std::int32_t>(std::max_element(row, row + classes) - row));
    }
  }
  return predicted;
}

} // namespace

TEST_CASE("evaluate gives the metrics of the objective, over all examples") {
  bags b(23, 3); // the last micro-batch is padded
  b.labels[5] = ct::ignored_label;
  ct::trainer<task<3>> t({.learning_rate = 1e-2f}, {.seed = 3});
  for (int round = 0; round < 2; ++round) {
    auto const predicted = predictions_of(t, b);
    auto const e = t.evaluate(b.all());
    CHECK(e.tokens == 22);
    REQUIRE(e.metrics.size() == 1); // three classes have no binary F1
    REQUIRE(e.metric("macro_f1").has_value());
    CHECK(*e.metric("macro_f1") == doctest::Approx(macro_f1_of(predicted, b.labels, 3)));
    CHECK(!e.metric("f1").has_value());
    ct::fit(t, b.all(), {.steps = 30, .log = nullptr});
  }
  CHECK(*t.evaluate(b.all()).metric("macro_f1") > 0.5);
}

TEST_CASE("rows that repeat an example at the end of the data do not count") {
  for (int const count : {1, 4, 6, 7}) {
    CAPTURE(count);
    bags const b(count, 3);
    std::vector<float> const ones(static_cast<std::size_t>(3 * count), 1);
    ct::trainer<task<3, with_scales>> t({}, {.seed = 3});
    auto const e = t.evaluate(examples(b.tokens, {b.labels, ones}));
    CHECK(e.tokens == count);
    CHECK(*e.metric("macro_f1") == doctest::Approx(macro_f1_of(predictions_of(t, b), b.labels, 3)));
  }
}

TEST_CASE("a last example without a valid label does not count") {
  bags b(6, 3);
  b.labels[5] = ct::ignored_label;
  std::vector<float> const ones(18, 1);
  ct::trainer<task<3, with_scales>> t({}, {.seed = 3});
  auto const e = t.evaluate(examples(b.tokens, {b.labels, ones}));
  CHECK(e.tokens == 5);
  auto predictions = predictions_of(t, b);
  predictions.resize(5), b.labels.resize(5);
  CHECK(*e.metric("macro_f1") == doctest::Approx(macro_f1_of(predictions, b.labels, 3)));
}

TEST_CASE("two classes have a binary F1, own objectives their own metrics, others none") {
  bags const b(40, 2);
  ct::trainer<task<2>> t({.learning_rate = 1e-2f}, {.seed = 3});
  auto const predicted = predictions_of(t, b);
  double correct = 0, all = 0;
  for (std::size_t i = 0; i < b.labels.size(); ++i)
    correct += predicted[i] == 1 && b.labels[i] == 1, all += predicted[i] + b.labels[i];
  auto const e = t.evaluate(b.all());
  REQUIRE(e.metrics.size() == 2);
  CHECK(*e.metric("f1") == doctest::Approx(2 * correct / all));
  ct::trainer<task<2, own_objective>> own({}, {.seed = 3});
  auto const f = own.evaluate(b.all());
  REQUIRE(f.metrics.size() == 2);
  CHECK(*f.metric("labels_of_class_0") == static_cast<double>(std::count(b.labels.begin(), b.labels.end(), 0)));
  CHECK(*f.metric("macro_f1") == *e.metric("macro_f1"));
  ct::trainer<task<2, without_metrics>> none({}, {.seed = 3});
  CHECK(none.evaluate(b.all()).metrics.empty());
  CHECK(none.evaluate(b.all()).loss == e.loss); // metrics change no other result
}

TEST_CASE("the metrics are the same with other policies") {
  bags const b(40, 3);
  ct::trainer<task<3>, ct::fusion::all> fused({}, {.seed = 3});
  ct::trainer<task<3>, ct::fusion::none> plain({}, {.seed = 3});
  CHECK(*fused.evaluate(b.all()).metric("macro_f1") == *plain.evaluate(b.all()).metric("macro_f1"));
  ct::trainer<task<3>, ct::precision::bf16> narrow({}, {.seed = 3});
  CHECK(narrow.evaluate(b.all()).metric("macro_f1").has_value());
}

TEST_CASE("the counts of a loop over rows of logits are summed") {
  auto const corpus = ct::data::random_tokens(16 * 16 * 3 + 40, 400, 3);
  using looped = ct::trainer<of_tokens, ct::fusion::all>;
  using plain = ct::trainer<of_tokens, ct::fusion::none>;
  // 256 rows, of which an eighth of the logits is stored at a time.
  static_assert(looped::entries::evaluate::where.end < plain::entries::evaluate::where.end);
  looped t({.learning_rate = 1e-2f}, {.seed = 3});
  plain u({.learning_rate = 1e-2f}, {.seed = 3});
  auto const e = t.evaluate(corpus), f = u.evaluate(corpus);
  CHECK(e.accuracy == f.accuracy);
  CHECK(*e.metric("macro_f1") > 0);
  CHECK(*e.metric("macro_f1") == doctest::Approx(*f.metric("macro_f1")).epsilon(1e-3)); // logits may round apart
}

TEST_CASE("fit writes the metrics of the validation to the log and the records") {
  bags const b(40, 2), v(21, 2, 7);
  auto const all = b.all(), validation = v.all();
  temporary_directory const directory;
  ct::trainer<task<2>> t({.learning_rate = 1e-2f}, {.seed = 3});
  auto const log = std::fopen((directory / "log").c_str(), "w");
  REQUIRE(log != nullptr);
  auto const r = ct::fit(
      t, all, {.steps = 4, .validation = &validation, .evaluate_every = 2, .log = log, .records = directory / "run"});
  std::fclose(log);
  REQUIRE(r.validation.has_value());
  auto const e = t.evaluate(validation);
  CHECK(*r.validation->metric("f1") == *e.metric("f1"));
  char shown[64];
  std::snprintf(shown, sizeof shown, "| macro_f1 %.3f | f1 %.3f\n", *e.metric("macro_f1"), *e.metric("f1"));
  CHECK(ct::test::read_file(directory / "log").find(shown) != std::string::npos);
  std::ifstream in(directory / "run/steps.jsonl");
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    auto const record = ct::io::json::parse(line, "steps.jsonl");
    CHECK(record.find("validation_metrics").has_value() == (lines % 2 == 1));
    if (lines == 3) CHECK(record["validation_metrics"]["f1"].real() == *e.metric("f1"));
  }
  CHECK(lines == 4);
  auto const summary = ct::test::read_file(directory / "run/summary.json");
  CHECK(ct::io::json::parse(summary, "summary.json")["validation_metrics"]["macro_f1"].real() == *e.metric("macro_f1"));
  auto const report = ct::test::read_file(directory / "run/report.html");
  CHECK(report.find(">macro_f1</text>") != std::string::npos);
  CHECK(report.find("<dt>validation f1</dt>") != std::string::npos);
}
