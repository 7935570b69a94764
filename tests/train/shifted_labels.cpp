#include "sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <vector>

// Labels of a language model are the tokens after the inputs: labels that equal the inputs are refused, or shifted.

namespace ct = constrain;
using ct::test::sentence;

namespace {

using integers = std::vector<std::int32_t>;

struct bigram {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 16, .width = 16}), 16);
  }
};
using next_token = ct::task<bigram{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 4}>;

} // namespace

TEST_CASE("labels that are the inputs are caught, or shifted on demand") {
  ct::trainer<next_token> t;
  integers const text{0, 1, 2, 3, 5, 6, 7, 8};
  for (auto const& said : {sentence([&] { t.batch(text, text); }), sentence([&] { t.evaluate(text, text); })})
    CHECK(said.substr(said.find(':')) ==
          ": the labels equal the inputs, but each label must be the token after its input; pass labels that are "
          "already shifted, or pass ct::labels::shift after the labels");
  integers const next{1, 2, 3, ct::ignored_label, 6, 7, 8, ct::ignored_label};
  ct::trainer<next_token> shifted, by_hand;
  auto const a = shifted.step(shifted.batch(text, text, ct::labels::shift)),
             b = by_hand.step(by_hand.batch(text, next));
  CHECK(a.loss == b.loss);
  CHECK(a.tokens == 6);
  CHECK(shifted.evaluate(text, text, ct::labels::shift).loss == by_hand.evaluate(text, next).loss);
  auto copy = shifted.batch(text, text, ct::labels::shift); // keeps its labels
  CHECK(integers(copy.labels.begin(), copy.labels.end()) == next);
  // One token repeated: its next token is itself.
  integers const same(8, 4);
  t.step(t.batch(same, same));
  integers const rows{4, 4, 4, 4, 9, 9, 9, 9};
  t.step(t.batch(rows, rows));
  CHECK(t.steps() == 2);
}

TEST_CASE("masked examples are refused if the labels are the next tokens") {
  ct::trainer<next_token> t;
  integers const text{0, 1, 2, 3, 5, 6, 7, 8};
  auto const masked = ct::data::examples(text, text).with_masks({.mask_token = 15, .vocabulary = 16});
  CHECK(sentence([&] { t.batches(masked); }) ==
        "batches: the examples are masked, but the objective's labels are the next tokens; use ct::masked_lm, or leave "
        "with_masks out");
}

TEST_CASE("ignored labels are no sign of unshifted labels; two labels in a row are") {
  ct::trainer<next_token> t;
  auto const refused = [&](integers const& inputs, integers const& labels) {
    return sentence([&] { t.batch(inputs, labels); }).starts_with("batch: the labels equal the inputs");
  };
  constexpr auto none = ct::ignored_label;
  integers const text{0, 1, 2, 3, 5, 6, 7, 8};
  // The prompt is ignored, and the answer is not shifted.
  CHECK(refused(text, {none, none, 2, 3, none, none, none, none}));
  CHECK(refused(text, {0, 1, none, none, none, none, none, none}));
  // One label differs: it is another token's.
  CHECK(!refused(text, {none, none, 2, 3, 5, 6, 7, 9}));
  // Correct labels that equal their inputs by chance: one repeated token, with padding after it; an answer of one
  // token, which is also the last token of the prompt.
  CHECK(!refused({4, 4, 0, 0, 9, 9, 9, 0}, {4, 4, none, none, 9, 9, 9, none}));
  CHECK(!refused({1, 2, 3, 0, 5, 6, 0, 0}, {none, none, 3, none, none, 6, none, none}));
  // The last token of a sequence does not precede the first token of the next.
  CHECK(!refused({4, 4, 4, 4, 9, 9, 9, 9}, {none, none, none, 4, 9, none, none, none}));
  for (auto const& said :
       {sentence([&] { t.batch(text, integers(8, none)); }), sentence([&] { t.evaluate(text, integers(8, none)); })})
    CHECK(said.substr(said.find(':')) ==
          ": every label is ignored, so there is no loss; pass at least one valid label");
}
