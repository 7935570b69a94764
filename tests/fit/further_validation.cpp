#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <constrain/io/json.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

// Several validation sets, each with its own metrics.

namespace ct = constrain;
using ct::data::examples;
using ct::test::sentence, ct::test::temporary_directory;

namespace {

using integers = std::vector<std::int32_t>;

struct bag_of_words {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::mean(ct::embedding("token", tokens, {.vocabulary = 12, .width = 8}), ct::axis::tokens);
    return ct::linear("head", x, 2);
  }
};
using task = ct::task<bag_of_words{}, ct::classification, ct::micro_batch{.sequences = 4, .tokens = 3}>;
using trainer = ct::trainer<task>;

/// The class of an example is whether it has a token above 8.
struct bags {
  integers tokens, labels;
  bags(int count, std::uint32_t seed) {
    for (int i = 0; i < count; ++i) {
      labels.push_back(0);
      for (int k = 0; k < 3; ++k) {
        seed = seed * 1664525u + 1013904223u;
        tokens.push_back(static_cast<std::int32_t>((seed >> 16) % 12));
        if (tokens.back() > 8) labels.back() = 1;
      }
    }
  }
  examples all() const { return {tokens, labels}; }
};

} // namespace

TEST_CASE("every set is evaluated, and reported under its name") {
  bags const b(40, 1), v(20, 2), x(13, 3), y(9, 4);
  auto const all = b.all(), validation = v.all(), books = x.all(), news = y.all();
  temporary_directory const directory;
  trainer t({.learning_rate = 1e-2f}, {.seed = 3});
  int evaluations = 0;
  struct hooks {
    int& evaluations;
    void on_evaluation(ct::fit_context& c) {
      REQUIRE(c.further_validation.size() == 2);
      CHECK(c.further_validation[1].name == "news");
      ++evaluations;
    }
  };
  auto const log = std::fopen((directory / "log").c_str(), "w");
  REQUIRE(log != nullptr);
  auto const r = ct::fit(t, all,
                         {.steps = 4,
                          .validation = &validation,
                          .further_validation = {{"books", &books}, {"news", &news}},
                          .evaluate_every = 2,
                          .log = log,
                          .records = directory / "run"},
                         hooks{evaluations});
  std::fclose(log);
  CHECK(evaluations == 2);
  REQUIRE(r.further_validation.size() == 2);
  auto const e = t.evaluate(books), f = t.evaluate(news);
  CHECK(r.further_validation[0].name == "books");
  CHECK(r.further_validation[0].result.loss == e.loss);
  CHECK(r.further_validation[0].result.tokens == 13);
  CHECK(r.further_validation[1].result.metric("f1") == f.metric("f1"));
  CHECK(r.validation->loss == t.evaluate(validation).loss);

  char shown[160];
  std::snprintf(shown, sizeof shown,
                "step 4 | news: validation loss %.4f | perplexity %.2f | accuracy %.3f | macro_f1 %.3f", f.loss,
                f.perplexity, f.accuracy, *f.metric("macro_f1"));
  CHECK(ct::test::read_file(directory / "log").find(shown) != std::string::npos);
  std::ifstream in(directory / "run/steps.jsonl");
  std::string line, last;
  while (std::getline(in, line)) last = line;
  auto const metrics = ct::io::json::parse(last, "steps.jsonl")["validation_metrics"];
  CHECK(metrics["books/loss"].real() == e.loss);
  CHECK(metrics["books/accuracy"].real() == e.accuracy);
  CHECK(metrics["news/macro_f1"].real() == *f.metric("macro_f1"));
  CHECK(metrics["macro_f1"].real() == *r.validation->metric("macro_f1"));
  auto const summary = ct::test::read_file(directory / "run/summary.json");
  CHECK(ct::io::json::parse(summary, "summary.json")["validation_metrics"]["news/f1"].real() == *f.metric("f1"));
  CHECK(ct::test::read_file(directory / "run/report.html").find(">books/loss</text>") != std::string::npos);
}

TEST_CASE("further sets change neither the run nor its best loss") {
  bags const b(40, 1), v(20, 2), x(13, 3);
  auto const all = b.all(), validation = v.all(), books = x.all();
  ct::fit_options o{.steps = 12, .validation = &validation, .evaluate_every = 2, .log = nullptr};
  trainer plain({.learning_rate = 3e-2f}, {.seed = 3}), more({.learning_rate = 3e-2f}, {.seed = 3});
  auto const r = ct::fit(plain, all, o);
  o.further_validation = {{"books", &books}};
  auto const s = ct::fit(more, all, o);
  CHECK(r.loss == s.loss);
  CHECK(r.validation->loss == s.validation->loss);
  CHECK(plain.state().best_validation_loss == more.state().best_validation_loss);
}

TEST_CASE("further sets that cannot be used are refused before the first step") {
  bags const b(40, 1);
  auto const all = b.all();
  trainer t;
  auto const said = [&](ct::data::dataset_pointer validation, std::vector<ct::named_validation> further) {
    return sentence([&] {
      ct::fit(t, all, {.steps = 1, .validation = validation, .further_validation = std::move(further), .log = nullptr});
    });
  };
  CHECK(said(nullptr, {{"books", &all}}) == "fit: .further_validation is evaluated along with .validation, but "
                                            ".validation is not set; give a corpus or examples");
  CHECK(said(&all, {{"", &all}}) == "fit: the name '' in .further_validation is empty; use another name");
  CHECK(said(&all, {{"\xff", &all}}).find("not UTF-8") != std::string::npos);
  CHECK(said(&all, {{"books", nullptr}}) ==
        "fit: 'books' in .further_validation has no data; give a corpus or examples");
  CHECK(said(&all, {{"books", &all}, {"books", &all}}) ==
        "fit: two sets in .further_validation have the name 'books'; give each its own name");
  auto const text = ct::data::corpus::from_bytes("a corpus of text");
  CHECK(said(&all, {{"books", &text}}) ==
        "fit: .further_validation 'books' and the training data are of different kinds; give examples as "
        ".further_validation 'books'");
  integers const ignored(40, ct::ignored_label);
  examples const unlabeled(b.tokens, ignored);
  CHECK(said(&all, {{"books", &unlabeled}})
            .starts_with("fit: the .further_validation 'books' examples have no valid label, because"));
  examples const wrong(b.labels, b.labels);
  CHECK(said(&all, {{"books", &wrong}}).starts_with("fit, .further_validation 'books': "));
  CHECK(t.steps() == 0);
}
