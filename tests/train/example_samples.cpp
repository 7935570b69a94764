#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

// Batches and evaluation of examples: every input and label of an example stays together, in the order of a corpus.

namespace ct = constrain;
using ct::data::examples, ct::data::tail;
using ct::test::sentence, ct::test::temporary_directory;

namespace {

using integers = std::vector<std::int32_t>;

// Tokens and their types, and a real number for each sequence.
struct three_inputs {
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"},
      {.name = "segments"},
      {.name = "score", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  constexpr ct::value operator()(ct::value tokens, ct::value segments, ct::value score) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 50, .width = 6}) +
             ct::embedding("segment", segments, {.vocabulary = 2, .width = 6});
    return ct::linear("head", ct::mean(ct::gelu(x), ct::axis::tokens) + ct::linear("score", score, 6), 4);
  }
};
using task = ct::task<three_inputs{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 3}>;
using trainer = ct::trainer<task, ct::accumulate<2>>;

/// Example i has the tokens 3 i, 3 i + 1, 3 i + 2, the segments of a row of its own, the scores i and -i.
struct arrays {
  integers tokens, segments, labels;
  std::vector<double> score;
  explicit arrays(int count) {
    for (int i = 0; i < count; ++i) {
      for (int k = 0; k < 3; ++k) tokens.push_back((3 * i + k) % 50), segments.push_back((i + k) % 2);
      score.insert(score.end(), {double(i), double(-i)}), labels.push_back(i % 4);
    }
  }
  examples all() const { return {{tokens, segments, score}, labels}; }
};

/// The examples of a batch; -1: padded. Checks that the arrays belong together.
integers rows_of(ct::batch const& b, arrays const& a) {
  auto const inputs = b.every_input(), labels = b.every_label();
  REQUIRE(inputs.size() == 3);
  auto const tokens = inputs[0].integers(), segments = inputs[1].integers(), given = labels[0].integers();
  auto const score = inputs[2].as<double>();
  REQUIRE(score.size() == 2 * given.size());
  integers rows;
  for (std::size_t r = 0; r < given.size(); ++r) {
    auto const i = given[r] == ct::ignored_label ? -1 : static_cast<int>(score[2 * r]);
    rows.push_back(i);
    CHECK(score[2 * r + 1] == (i < 0 ? 0 : -i));
    for (std::size_t k = 0; k < 3; ++k) {
      auto const at = static_cast<std::size_t>(i) * 3 + k;
      CHECK(tokens[3 * r + k] == (i < 0 ? 0 : a.tokens[at]));
      CHECK(segments[3 * r + k] == (i < 0 ? 0 : a.segments[at]));
    }
    if (i >= 0) CHECK(given[r] == a.labels[static_cast<std::size_t>(i)]);
  }
  return rows;
}

struct line {
  constexpr auto inputs() const {
    return std::array{
        ct::port_spec{.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  }
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 1); }
};
using regression = ct::task<line{}, ct::mean_squared_error, ct::micro_batch{.sequences = 4}>;

struct points {
  std::vector<float> x, y;
  explicit points(int count) {
    for (int i = 0; i < count; ++i) {
      x.insert(x.end(), {static_cast<float>(std::sin(i)), static_cast<float>(std::cos(3 * i))});
      y.push_back(x[x.size() - 2] - 0.5f * x.back() + 0.1f * static_cast<float>(i % 3));
    }
  }
  examples all() const { return {x, y}; }
};

struct bigram {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 16, .width = 8}), 16);
  }
};
using next_token = ct::task<bigram{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("every example comes once an epoch, its arrays together, in the order of a corpus' samples") {
  arrays const a(11);
  trainer t({}, {.seed = 5});
  for (auto const kind : {tail::carry, tail::drop, tail::pad}) {
    CAPTURE(static_cast<int>(kind));
    std::map<int, int> found;
    ct::data::position at;
    int batches = 0;
    auto const all = a.all();
    for (auto const& b : t.batches(all, kind)) {
      auto const rows = rows_of(b, a);
      CHECK(b.corpus == all.fingerprint());
      std::int64_t valid = 0;
      for (auto const row : rows) {
        if (kind == tail::carry) {
          CHECK(row == at.in_corpus(5, 11));
          at.advance(11);
        }
        ++found[row], valid += row >= 0;
      }
      CHECK(b.valid_labels == valid);
      if (kind == tail::carry) CHECK(b.next == at);
      if (++batches == (kind == tail::carry ? 11 : 6)) break;
    }
    if (kind == tail::carry)
      for (int i = 0; i < 11; ++i) CHECK(found[i] == 4); // 44 rows
    if (kind == tail::drop) CHECK(found[-1] == 0);
    if (kind == tail::pad) {
      CHECK(found[-1] == 2);
      for (int i = 0; i < 11; ++i) CHECK(found[i] == 2);
    }
  }
}

TEST_CASE("a step of a batch is the step of its arrays") {
  arrays const a(8);
  trainer t({.learning_rate = 1e-2f}, {.seed = 3}), u({.learning_rate = 1e-2f}, {.seed = 3});
  for (auto const& b : t.batches(a.all())) {
    auto const same = u.step(u.batch(b.every_input(), b.every_label()));
    CHECK(t.step(b).loss == same.loss);
    if (t.steps() == 5) break;
  }
}

TEST_CASE("a batch is taken before the next one overwrites it") {
  arrays const a(8);
  trainer t;
  auto range = t.batches(a.all());
  auto it = range.begin();
  ct::batch const kept = *it;
  ++it;
  CHECK(sentence([&] { t.step(kept); }).starts_with("step: the batch's arrays were reused"));
}

TEST_CASE("a run goes on in the middle of an epoch, with the same examples only") {
  arrays const a(11);
  temporary_directory const directory;
  trainer whole({.learning_rate = 1e-2f}, {.seed = 9});
  std::vector<double> losses;
  for (auto const& b : whole.batches(a.all())) {
    losses.push_back(whole.step(b).loss);
    if (losses.size() == 4) whole.save(directory / "run"); // 16 of 11 + 5 examples
    if (losses.size() == 9) break;
  }
  trainer second({.learning_rate = 1e-2f});
  second.load(directory / "run");
  CHECK(second.state().position == ct::data::position{1, 5});
  arrays const copy(11); // at other addresses
  std::size_t i = 4;
  for (auto const& b : second.batches(copy.all())) {
    CHECK(second.step(b).loss == losses[i++]);
    if (i == 9) break;
  }
  auto changed = a;
  changed.segments[4] = 1 - changed.segments[4];
  auto other = second.batches(changed.all());
  CHECK((*other.begin()).next == ct::data::position{0, 4}); // from the start
}

TEST_CASE("evaluation counts every example once, whatever is left for the last micro-batch") {
  for (int const count : {1, 2, 5, 8}) {
    CAPTURE(count);
    arrays const a(count);
    ct::trainer<task, ct::precision::fp64> t({}, {.seed = 2});
    double loss = 0, correct = 0;
    for (int i = 0; i < count; ++i) {
      auto const n = static_cast<std::size_t>(i);
      integers const tokens(6, 0), segments(6, 0);
      auto twice = [&](auto const& from, std::size_t each) {
        auto row = std::vector(from.begin() + static_cast<std::ptrdiff_t>(n * each),
                               from.begin() + static_cast<std::ptrdiff_t>((n + 1) * each));
        row.insert(row.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(each));
        return row;
      };
      auto const one =
          t.evaluate({twice(a.tokens, 3), twice(a.segments, 3), twice(a.score, 2)}, integers{a.labels[n], -100});
      loss += one.loss / count, correct += one.accuracy / count;
    }
    auto const e = t.evaluate(a.all());
    CHECK(std::abs(e.loss - loss) < 1e-12);
    CHECK(std::abs(e.accuracy - correct) < 1e-12);
    CHECK(e.tokens == count);
  }
}

TEST_CASE("evaluation of real labels counts every example once") {
  ct::trainer<regression, ct::precision::fp64> t({}, {.seed = 2});
  std::vector<double> weights(2), bias(1);
  for (auto const& p : t.parameters()) p.copy_to(p.name == "out.weight" ? std::span(weights) : std::span(bias));
  for (int const count : {1, 3, 4, 6, 9}) {
    CAPTURE(count);
    points const p(count);
    double loss = 0;
    for (std::size_t i = 0; i < p.y.size(); ++i) {
      auto const error =
          weights[0] * double(p.x[2 * i]) + weights[1] * double(p.x[2 * i + 1]) + bias[0] - double(p.y[i]);
      loss += error * error / count;
    }
    auto const e = t.evaluate(p.all());
    CHECK(std::abs(e.loss - loss) < 1e-12);
    CHECK(e.tokens == count);
    CHECK(std::isnan(e.accuracy));
  }
}

TEST_CASE("labels are shifted within each example") {
  integers const tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  ct::trainer<next_token> t({}, {.seed = 1}), u({}, {.seed = 1});
  examples const raw(tokens, tokens, ct::labels::shift);
  int batches = 0;
  for (auto const& b : t.batches(raw)) {
    CHECK(b.valid_labels == 6);
    for (std::size_t i = 0; i < 8; ++i) CHECK(b.labels[i] == (i % 4 == 3 ? ct::ignored_label : b.inputs[i + 1]));
    if (++batches == 3) break;
  }
  integers shifted{2, 3, 4, -100, 6, 7, 8, -100, 10, 11, 12, -100};
  CHECK(t.evaluate(raw).loss == t.evaluate(examples(tokens, shifted)).loss);
  CHECK(t.evaluate(raw).tokens == 9);
  CHECK(sentence([&] { t.batches(examples(tokens, tokens)); }).find("pass ct::labels::shift after the labels") !=
        std::string::npos);
  arrays const a(4);
  trainer classifier;
  CHECK(sentence([&] {
          classifier.batches(examples({a.tokens, a.segments, a.score}, a.labels, ct::labels::shift));
        }).starts_with("batches: ct::labels::shift is for labels that are the next tokens"));
}

TEST_CASE("a batch without a label is left out") {
  arrays a(6);
  for (std::size_t i = 0; i < 6; ++i)
    if (i != 4) a.labels[i] = ct::ignored_label;
  trainer t;
  int batches = 0;
  for (auto const& b : t.batches(a.all())) {
    CHECK(b.valid_labels >= 1);
    if (++batches == 6) break;
  }
}

TEST_CASE("examples that do not fit are refused, each in a sentence") {
  arrays const a(6);
  trainer t;
  auto const said = [&](examples const& e) { return sentence([&] { t.batches(e); }); };
  CHECK(said({a.tokens, a.labels}) ==
        "batches: 1 input was given, but the model takes 3 (tokens, segments, score); pass a list of one array for "
        "each, {tokens, segments, score}");
  CHECK(said({{a.tokens, a.score, a.score}, a.labels}) ==
        "batches: the input \"segments\" must hold integers, but the array given for it has elements of type double; "
        "pass an array of std::int32_t");
  CHECK(
      said({{a.tokens, std::span(a.segments).first(17), a.score}, a.labels}) ==
      "batches: the input \"segments\" has 17 elements, which is not a multiple of the 3 elements of one example; pass "
      "complete examples");
  CHECK(
      said({{a.tokens, std::span(a.segments).first(15), a.score}, a.labels}) ==
      "batches: the input \"tokens\" has 6 examples, but the input \"segments\" has 5; pass arrays of the same number "
      "of examples");
  CHECK(said({{a.tokens, a.segments, a.score}, std::span(a.labels).first(2)}) ==
        "batches: the input \"tokens\" has 6 examples, but the label \"labels\" has 2; pass arrays of the same number "
        "of examples");
  CHECK(said(arrays(0).all()) == "batches: there are no examples; pass arrays with at least one");
  CHECK(said(a.all().split(0.1).validation) ==
        "batches: this part of the 6 examples is empty; give more examples, or split with another validation_fraction "
        "or a validation_limit above 0");
  auto b = a;
  b.tokens[3 * 4 + 2] = 50;
  CHECK(said(b.all()) ==
        "batches: the input \"tokens\" of example 4 is 50 at position 2, outside [0, 50); pass integers "
        "from 0 to 49");
  b = a, b.score[3] = std::numeric_limits<double>::infinity();
  CHECK(said(b.all()) ==
        "batches: the input \"score\" of example 1 is not finite at position 1; pass finite numbers, for "
        "example 0 where a value is missing");
  b = a, b.score[3] = -1e39;
  CHECK(said(b.all()) ==
        "batches: the input \"score\" of example 1 is -1e+39 at position 1, but f32 holds only magnitudes up to "
        "3.40282347e+38; pass smaller magnitudes, for example numbers divided by their standard deviation");
  b = a, b.labels[5] = 4;
  CHECK(said(b.all()) == "batches: the label \"labels\" of example 5 is 4 at position 0, outside [0, 4); pass integers "
                         "from 0 to 3, or -100 to ignore one");
  b.labels.assign(6, ct::ignored_label);
  CHECK(said(b.all()) ==
        "batches: the examples have no valid label, because every label is ignored; give examples with "
        "labels to learn");
  CHECK(sentence([&] { t.evaluate(b.all()); }) ==
        "evaluate: every label is ignored, so there is no loss; pass at least one valid label");
  CHECK(sentence([&] { t.evaluate(examples(a.tokens, a.labels)); }).starts_with("evaluate: 1 input was given"));
}

TEST_CASE("fewer examples than a batch, and a tail that cannot be padded") {
  arrays const a(3); // a batch takes 4
  trainer t;
  CHECK(sentence([&] { t.batches(a.all(), tail::drop); }) ==
        "batches: an epoch of the examples has 3 samples, but a batch takes 4, so tail::drop would drop every "
        "sample; give more examples or use tail::carry");
  auto carried = t.batches(a.all());
  CHECK((*carried.begin()).next == ct::data::position{1, 1});
  points const p(6);
  ct::trainer<regression> r;
  CHECK(sentence([&] { r.batches(p.all(), tail::pad); }) ==
        "batches: tail::pad ignores the labels of the padding, but the task has floating-point labels, labels that "
        "an op indexes by, or a loss that reads the logits in an op without integer labels, so the padding would "
        "count; use tail::carry or tail::drop");
}
