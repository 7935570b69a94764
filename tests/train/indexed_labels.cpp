#include "sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Examples with labels that an op indexes by: an embedding cannot ignore one, as a loss can.

namespace ct = constrain;
using ct::data::examples, ct::data::tail;
using ct::test::sentence;

namespace {

using integers = std::vector<std::int32_t>;

// The second labels choose a row of a table; `swapped`: the first do.
template <bool swapped> struct grouped_classes {
  static constexpr ct::port_spec classes{.name = "classes", .each = ct::per::row};
  static constexpr ct::port_spec groups{.name = "groups", .each = ct::per::sequence};
  static constexpr ct::port_spec labels[] = {swapped ? groups : classes, swapped ? classes : groups};
  constexpr ct::value operator()(ct::value logits, ct::value first, ct::value second) const {
    auto const group = ct::embedding("group", swapped ? first : second, {.vocabulary = 4, .width = 3});
    return ct::cross_entropy(logits + group, swapped ? second : first);
  }
};
struct three_classes {
  constexpr auto inputs() const {
    return std::array{
        ct::port_spec{.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  }
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 3); }
};
struct sixteen_features : three_classes {
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 16); }
};
template <bool swapped, int sequences = 2>
using grouped = ct::task<three_classes{}, grouped_classes<swapped>, ct::micro_batch{.sequences = sequences}>;

// The second labels, one per row, choose a row of a table with more rows than there are classes.
struct buckets {
  static constexpr ct::port_spec labels[] = {{.name = "classes", .each = ct::per::row},
                                             {.name = "bucket", .each = ct::per::row}};
  constexpr ct::value operator()(ct::value logits, ct::value classes, ct::value bucket) const {
    return ct::cross_entropy(logits + ct::embedding("bucket", bucket, {.vocabulary = 20, .width = 3}), classes);
  }
};
// The only labels choose a row of a table. If it has more rows than there are logits, they are no classes.
template <int rows> struct prototypes {
  constexpr ct::value operator()(ct::value logits, ct::value labels) const {
    return ct::squared_error(logits, ct::embedding("prototype", labels, {.vocabulary = rows, .width = 3}));
  }
};
// The logits are features, from which the objective computes the scores of more classes.
struct head_of_ten {
  constexpr ct::value operator()(ct::value features, ct::value labels) const {
    return ct::cross_entropy(ct::linear("head", features, 10), labels);
  }
};
// Three ids per row are no class.
struct three_per_row {
  static constexpr ct::port_spec labels[] = {{.name = "triples", .each = ct::per::row, .features = 3},
                                             {.name = "targets", .type = ct::port_type::real, .each = ct::per::logit}};
  constexpr ct::value operator()(ct::value logits, ct::value triples, ct::value targets) const {
    auto const table = ct::embedding("triple", triples, {.vocabulary = 20, .width = 3});
    return ct::squared_error(logits + ct::mean(table, ct::axis::tokens), targets);
  }
};

// The next tokens are labels and, at the same time, an input of a table.
struct looked_up_labels {
  static constexpr bool labels_are_next_tokens = true;
  static constexpr ct::port_spec labels[] = {{.name = "next", .each = ct::per::token}};
  constexpr ct::value operator()(ct::value logits, ct::value next) const {
    return ct::cross_entropy(logits + ct::embedding("seen", next, {.vocabulary = 16, .width = 16}), next);
  }
};

struct bigram {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 16, .width = 8}), 16);
  }
};
template <int sequences>
using indexed_next = ct::task<bigram{}, looked_up_labels, ct::micro_batch{.sequences = sequences, .tokens = 4}>;

constexpr char const* cannot_pad =
    "batches: tail::pad ignores the labels of the padding, but the task has floating-point labels, labels that an op "
    "indexes by, or a loss that reads the logits in an op without integer labels, so the padding would count; use "
    "tail::carry or tail::drop";

} // namespace

TEST_CASE("labels that an op indexes by are padded with 0, and padded examples do not count") {
  std::vector<float> const x{1, 2, 3, 4, 5, 6};
  integers const classes{0, 1, 2}, groups{1, 2, 3};
  examples const all(x, {classes, groups});
  ct::trainer<grouped<false>, ct::precision::fp64> t({.learning_rate = 1e-2f}, {.seed = 3, .checked = true});
  ct::trainer<grouped<false, 3>, ct::precision::fp64> whole({}, {.seed = 3});
  auto const e = t.evaluate(all), expected = whole.evaluate(all);
  CHECK(std::abs(e.loss - expected.loss) < 1e-12);
  CHECK(e.tokens == 3);
  int batches = 0;
  for (auto const& b : t.batches(all, tail::pad)) {
    auto const given = b.every_label()[0].integers(), group = b.every_label()[1].integers();
    if (++batches % 2 == 0) {
      CHECK(given[1] == ct::ignored_label);
      CHECK(group[1] == 0);
    }
    auto const r = t.step(b);
    CHECK(r.tokens == (batches % 2 == 0 ? 1 : 2));
    if (batches == 4) break;
  }
  integers const ignored{1, ct::ignored_label, 3};
  CHECK(sentence([&] {
          t.batches(examples(x, {classes, ignored}));
        }) ==
        "batches: the label \"groups\" of example 1 is -100 at position 0, but an op indexes by it, so it cannot be "
        "ignored; pass integers from 0 to 3");
}

TEST_CASE("if the first labels cannot be ignored, examples are not padded, and each counts once") {
  std::vector<float> const x{1, 2, 3, 4, 5, 6};
  integers const classes{0, 1, 2}, groups{1, 2, 3};
  examples const all(x, {groups, classes});
  ct::trainer<grouped<true>, ct::precision::fp64> t({.learning_rate = 1e-2f}, {.seed = 3, .checked = true});
  ct::trainer<grouped<true, 3>, ct::precision::fp64> whole({}, {.seed = 3});
  auto const e = t.evaluate(all), expected = whole.evaluate(all);
  CHECK(std::abs(e.loss - expected.loss) < 1e-12);
  CHECK(e.tokens == 3);
  CHECK(sentence([&] { t.batches(all, tail::pad); }) == cannot_pad);
  for (auto const& b : t.batches(all)) {
    CHECK(t.step(b).tokens == 2);
    if (t.steps() == 3) break;
  }
}

TEST_CASE("if an op indexes by the labels, a corpus is not padded, and each sample counts once") {
  std::vector<std::uint16_t> const tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}; // 3 samples of 4 tokens
  auto const corpus =
      ct::data::corpus::from_storage(nullptr, std::as_bytes(std::span(tokens)), ct::data::token_width::uint16);
  ct::trainer<indexed_next<2>, ct::precision::fp64> t({}, {.seed = 3, .checked = true});
  ct::trainer<indexed_next<3>, ct::precision::fp64> whole({}, {.seed = 3});
  auto const e = t.evaluate(corpus), expected = whole.evaluate(corpus);
  CHECK(std::abs(e.loss - expected.loss) < 1e-12);
  CHECK(e.tokens == 12);
  CHECK(sentence([&] { t.batches(corpus, tail::pad); }) == cannot_pad);
}

TEST_CASE("labels that an op indexes by are not shifted") {
  integers const tokens{1, 2, 3, 4, 5, 6, 7, 8};
  ct::trainer<indexed_next<2>> t;
  std::string const after =
      ": ct::labels::shift ignores the last label of each sequence, but an op indexes "
      "by the label \"next\"; pass labels that are already shifted, with an integer at the end of each "
      "sequence";
  CHECK(sentence([&] { t.batches(examples(tokens, tokens, ct::labels::shift)); }) == "batches" + after);
  CHECK(sentence([&] { t.batch(tokens, tokens, ct::labels::shift); }) == "batch" + after);
}

TEST_CASE("labels per row are limited by the ops that read them, not by the number of classes") {
  std::vector<float> const x{1, 2, 3, 4};
  ct::trainer<ct::task<three_classes{}, buckets, ct::micro_batch{.sequences = 2}>> t;
  CHECK(t.step(t.batch(x, {integers{0, 2}, integers{19, 10}})).tokens == 2);
  CHECK(t.evaluate(x, {integers{0, 2}, integers{19, 10}}).tokens == 2);
  CHECK(sentence([&] {
          t.batch(x, {integers{0, 2}, integers{20, 0}});
        }) == "batch: the label \"bucket\" is 20 at index 0, outside [0, 20); pass integers from 0 to 19");
  CHECK(sentence([&] {
          t.batch(x, {integers{3, 2}, integers{0, 0}});
        }) ==
        "batch: the label \"classes\" is 3 at index 0, outside [0, 3); pass integers from 0 to 2, or -100 to ignore "
        "one");
}

TEST_CASE("several ids per row are not classes, and have no accuracy") {
  std::vector<float> const x{1, 2, 3, 4};
  ct::trainer<ct::task<three_classes{}, three_per_row, ct::micro_batch{.sequences = 2}>> t;
  auto const e = t.evaluate(x, {integers{0, 19, 10, 1, 2, 3}, std::vector<float>(6)});
  CHECK(std::isfinite(e.loss));
  CHECK(std::isnan(e.accuracy));
  CHECK(std::isnan(e.perplexity));
}

TEST_CASE("labels with more values than there are logits are not classes of the logits") {
  std::vector<float> const x{1, 2, 3, 4};
  ct::trainer<ct::task<three_classes{}, prototypes<10>, ct::micro_batch{.sequences = 2}>> t;
  ct::trainer<ct::task<three_classes{}, head_of_ten, ct::micro_batch{.sequences = 2}>> with_head;
  CHECK(t.step(t.batch(x, integers{7, 9})).tokens == 2);
  auto const e = t.evaluate(x, integers{7, 9});
  CHECK(std::isfinite(e.loss));
  CHECK(std::isnan(e.accuracy));
  CHECK(std::isnan(e.perplexity));
  CHECK(sentence([&] { t.batch(x, integers{7, 10}); }).ends_with("outside [0, 10); pass integers from 0 to 9"));
  CHECK(with_head.step(with_head.batch(x, integers{7, ct::ignored_label})).tokens == 1);
  CHECK(std::isnan(with_head.evaluate(x, integers{7, 9}).accuracy));
  // The objective's head has fewer classes than the model has logits.
  ct::trainer<ct::task<sixteen_features{}, head_of_ten, ct::micro_batch{.sequences = 2}>> wide;
  CHECK(std::isnan(wide.evaluate(x, integers{7, 9}).accuracy));
  // A table may have as many rows as there are classes.
  ct::trainer<ct::task<three_classes{}, prototypes<3>, ct::micro_batch{.sequences = 2}>> of_classes;
  CHECK(std::isfinite(of_classes.evaluate(x, integers{0, 2}).accuracy));
}
