#include "../sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

// Rows of a comparison: each with its own hyperparameters, and a table that stays one.

namespace ct = constrain;
using ct::test::sentence;

namespace {

using task = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 256, .context = 8}, ct::causal_lm,
                      ct::micro_batch{.sequences = 2}>;

/// Descent with a name that would paint a terminal red.
struct painted {
  static constexpr char const* name = "\033[31mpainted\n\xc2\x9b";
  template <class real> struct state {};
  struct hyper {
    float rate = 1e-2f;
  };
  template <class real>
  CT_HOST_DEVICE static real update(real weight, real gradient, state<real>&, hyper const& h, ct::optimizer_step) {
    return weight - h.rate * gradient;
  }
};

/// A metric that is defined for no counts.
struct undefined_metric {
  static constexpr char const* name = "undefined";
  static double of(ct::class_counts const&) { throw ct::error("the metric is not defined"); }
};
struct causal_lm_with_metric : ct::causal_lm {
  using metrics = ct::metrics<undefined_metric>;
};

ct::data::corpus text() {
  std::string words;
  for (int i = 0; i < 60; ++i) words += "template <class real> struct number" + std::to_string(i % 7) + ";\n";
  return ct::data::text_from(words);
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    auto const end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

bool has_controls(std::string const& text) {
  for (char const c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) return true;
  return text.find("\xc2\x9b") != std::string::npos;
}

} // namespace

TEST_CASE("each strategy has its own hyperparameters and name") {
  auto const corpus = text();
  ct::compare_options const options{.tokens = 300, .seed = 3, .validation_fraction = 0.1};
  auto const rows = ct::compare<task>(
      corpus, options, ct::strategy<ct::policies<>>{.hyper = {.learning_rate = 3e-2f}},
      ct::strategy<ct::policies<>>{.name = "adamw as it comes"},
      ct::strategy<ct::policies<ct::optimizer::sgd>>{.hyper = {.learning_rate = 0.5f}, .name = "sgd, 0.5"});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].name == "fp32, adamw");
  CHECK(rows[1].name == "adamw as it comes");
  CHECK(rows[2].name == "sgd, 0.5");
  CHECK(rows[0].loss < rows[1].loss); // on so few tokens the larger rate learns more
  // Unset options are as in rows with only policies, which use the common learning rate.
  auto common = options;
  common.learning_rate = 3e-2f;
  CHECK(ct::compare<task, ct::policies<>>(corpus, options)[0].loss == rows[1].loss);
  CHECK(ct::compare<task, ct::policies<>>(corpus, common)[0].loss == rows[0].loss);
  CHECK(sentence([&] { ct::compare<task>(corpus, common, ct::strategy<ct::policies<>>{}); }) ==
        "compare: .learning_rate is set, but each strategy has its own in .hyper; leave .learning_rate out");
}

TEST_CASE("the common learning rate reaches an optimizer inside another") {
  auto const corpus = text();
  ct::compare_options options{.tokens = 300, .seed = 3, .validation_fraction = 0.1};
  using averaged = ct::optimizer::averaged<ct::optimizer::adamw>;
  auto const by_default = ct::compare<task, ct::policies<averaged>>(corpus, options);
  auto const in_hyper = ct::compare<task>(
      corpus, options, ct::strategy<ct::policies<averaged>>{.hyper = {.base = {.learning_rate = 3e-2f}}});
  options.learning_rate = 3e-2f;
  auto const common = ct::compare<task, ct::policies<averaged>>(corpus, options);
  CHECK(common[0].loss == in_hyper[0].loss);
  CHECK(common[0].loss != by_default[0].loss);
}

TEST_CASE("a corpus too short to compare on is refused before the first row") {
  auto const said = [](std::string const& text, ct::compare_options const& options) {
    return sentence([&] { ct::compare<task, ct::policies<>>(ct::data::text_from(text), options); });
  };
  CHECK(said(std::string(100, 'a'), {}) ==
        "compare: the corpus leaves 2 of its 100 tokens to validate on, but a sequence of 8 tokens needs at least "
        "9 tokens; give more text, or change .validation_fraction or .validation_tokens");
  CHECK(said(std::string(100, 'a'), {.validation_fraction = 0.95})
            .starts_with("compare: the corpus leaves 5 of its 100 tokens to train on"));
  CHECK(said(std::string(1000, 'a'), {.validation_fraction = 0}) ==
        "compare_options: .validation_fraction is 0; give a number above 0 and at most 1");
  CHECK(said(std::string(1000, 'a'), {.tokens = 0}) == "compare_options: .tokens is 0; give an integer of at least 1");
}

TEST_CASE("a corpus part is never one token short of .validation_tokens") {
  for (auto const& [tokens, size] : {std::pair(8, 519), {16, 4211}, {32, 16659}, {64, 4105}}) {
    auto const corpus = ct::data::text_from(std::string(static_cast<std::size_t>(size), 'a'));
    auto const parts =
        ct::detail::parts_to_compare(corpus, {.validation_fraction = 0.5, .validation_tokens = tokens}, tokens);
    CHECK(parts.validation.size() == tokens + 1);
  }
}

TEST_CASE("a comparison cuts no text of one length") {
  auto const of_texts = [](std::size_t texts, std::int64_t length) {
    std::string bytes;
    for (std::size_t i = 0; i < texts; ++i) bytes += std::string(static_cast<std::size_t>(length), char('a' + i % 3));
    return ct::data::corpus::from_bytes(bytes, {}, length);
  };
  for (int const validation_tokens : {8, 15, 16, 1000}) {
    auto const corpus = of_texts(37, 8);
    auto const parts =
        ct::detail::parts_to_compare(corpus, {.validation_fraction = 0.5, .validation_tokens = validation_tokens}, 8);
    CHECK(parts.train.size() % 8 == 0);
    CHECK(parts.validation.size() == (validation_tokens == 1000 ? 18 : 1 + validation_tokens / 8) * 8);
  }
  CHECK(ct::compare<task, ct::policies<>>(of_texts(37, 16), {.tokens = 16, .validation_fraction = 0.1}).size() == 1);
  CHECK(ct::compare<task, ct::policies<>>(of_texts(99, 4), {.tokens = 16, .validation_fraction = 0.1}).size() == 1);
  CHECK(
      sentence([&] { ct::compare<task, ct::policies<>>(of_texts(37, 12), {.validation_fraction = 0.1}); }) ==
      "compare: each text of the corpus has 12 tokens, but a sequence has 8, so some sequences would have parts of two "
      "texts; change the texts' length (.length of data::json_lines) or the tokens in a sequence, so that one is a "
      "multiple of the other");
}

TEST_CASE("held-out data without a label is refused before the first row") {
  std::vector<bool> prompt(200, false);
  std::fill(prompt.begin() + 150, prompt.end(), true);
  auto const corpus = ct::data::corpus::from_bytes(std::string(200, 'a'), prompt);
  auto const said =
      sentence([&] { ct::compare<task, ct::policies<>>(corpus, {.tokens = 16, .validation_fraction = 0.1}); });
  // `evaluate`, after the row's training, says something else.
  CHECK(said ==
        "compare: the held-out part of the corpus has no valid label, because its samples could only predict prompt "
        "tokens or padding; give a corpus with text to predict, or change .validation_fraction or "
        ".validation_tokens");
  prompt.flip(); // the other part has none
  auto const all_given = ct::data::corpus::from_bytes(std::string(200, 'a'), prompt);
  CHECK(sentence([&] {
          ct::compare<task, ct::policies<>>(all_given, {.tokens = 16, .validation_fraction = 0.25});
        }).starts_with("compare: the corpus has no valid label"));
}

TEST_CASE("compare: every row is checked before the first one trains, and the error names the row") {
  auto const corpus = text();
  ct::compare_options const years{.tokens = 100'000'000'000, .clip_norm = 1}; // the test ends only without training
  using in_backward = ct::policies<ct::optimizer::in_backward<ct::optimizer::sgd>>;
  CHECK(sentence([&] {
          ct::compare<task, ct::policies<>, in_backward>(corpus, years);
        }).starts_with("compare, row 'fp32, in_backward<sgd>': compare_options: .clip_norm is 1, but "));
  CHECK(sentence([&] {
          ct::compare<task>(corpus, {.tokens = years.tokens}, ct::strategy<ct::policies<>>{},
                            ct::strategy<ct::policies<>>{.hyper = {.learning_rate = -1}, .name = "uphill"});
        }).starts_with("compare, row 'uphill': adamw: .learning_rate is -1"));
}

TEST_CASE("compare: an error in the training of a row names the row") {
  using measured = ct::task<task::architecture, causal_lm_with_metric, ct::micro_batch{.sequences = 2}>;
  CHECK(sentence([] {
          ct::compare<measured>(text(), {.tokens = 16}, ct::strategy<ct::policies<>>{.name = "first"});
        }) == "compare, row 'first': the metric is not defined");
}

TEST_CASE("compare: a learning rate that is 0 in fp32 is refused") {
  CHECK(sentence([] { ct::compare<task, ct::policies<>>(text(), {.learning_rate = 1e-60}); }) ==
        "compare_options: .learning_rate is 1e-60; give 0, or a number that is above 0 in fp32");
}

TEST_CASE("compare: the planned bytes are the used ones, even if predict, which no row runs, needs more") {
  // With fusion::all, only `predict` stores all logits.
  using wide = ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 2, .vocabulary = 512, .context = 64}, ct::causal_lm,
                        ct::micro_batch{.sequences = 4}>;
  using in_chunks = ct::policies<ct::optimizer::in_backward<ct::optimizer::sgd>, ct::fusion::all>;
  auto const row = ct::compare<wide, in_chunks>(text(), {.tokens = 256, .validation_fraction = 0.1})[0];
  CHECK(row.planned_peak <
        ct::trainer<wide, ct::optimizer::in_backward<ct::optimizer::sgd>, ct::fusion::all>::memory.peak);
  CHECK(row.planned_peak == row.used_peak);
}

TEST_CASE("the table is aligned, whatever the names") {
  std::vector<ct::comparison> rows(3);
  rows[0].name = "fp32, adamw";
  rows[1].name = "bf16, adamw, accumulate<16>, checkpoint::every<12>, zero<3, 8>, attention::reference, fusion::none";
  rows[1].planned_peak = ct::gibibytes(80), rows[1].tokens_per_second = 1e6;
  rows[2].name = painted::name;
  auto const lines = lines_of(ct::table(rows));
  REQUIRE(lines.size() == 4);
  for (auto const& line : lines) CHECK(line.size() == lines[0].size());
  CHECK(lines[0].starts_with("strategy "));
  CHECK(lines[2].starts_with(rows[1].name + " "));
  CHECK(lines[2].find(" 85,899,345,920 ") != std::string::npos);
}

TEST_CASE("a name of control characters reaches no terminal") {
  using trainer = ct::trainer<task, painted>;
  auto const corpus = text();
  trainer t;
  std::FILE* const log = std::tmpfile();
  REQUIRE(log != nullptr);
  ct::fit(t, corpus, {.steps = 1, .log = log});
  std::rewind(log);
  std::string shown(16384, '\0');
  shown.resize(std::fread(shown.data(), 1, shown.size(), log));
  std::fclose(log);
  CHECK(shown.starts_with("fp32, ?[31mpainted?? | "));
  CHECK_FALSE(has_controls(shown));
  CHECK_FALSE(has_controls(ct::explanation<trainer>(true)));
  std::vector<ct::comparison> rows(1);
  rows[0].name = painted::name;
  CHECK_FALSE(has_controls(ct::table(rows)));
  CHECK(ct::table(rows).find("?[31mpainted?? ") != std::string::npos);
}
