#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

// fit, batches and evaluate with masked examples.

namespace ct = constrain;
using ct::data::examples;
using ct::test::sentence, ct::test::temporary_directory, ct::test::read_file;

namespace {

using integers = std::vector<std::int32_t>;

struct encoder {
  int vocabulary;
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto x = ct::position_embedding("position", ct::embedding("token", tokens, {.vocabulary = vocabulary, .width = 16}),
                                    {.context = 8});
    x = x +
        ct::self_attention(ct::linear("qkv", ct::layer_norm("norm", x), 48), lengths, {.heads = 2, .causal = false});
    return ct::linear("head", ct::layer_norm("norm_1", x), vocabulary);
  }
};
using task = ct::task<encoder{12}, ct::masked_lm, ct::micro_batch{.sequences = 4, .tokens = 8}>;
using trainer = ct::trainer<task, ct::accumulate<2>>;

struct classifier {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 12, .width = 6});
    auto const y = ct::self_attention(x, lengths, {.heads = 1, .causal = false});
    return ct::linear("head", ct::select_token(y, 0), 12);
  }
};

constexpr ct::data::masking masks{.mask_token = 11, .vocabulary = 12, .share = 0.3, .seed = 5};

/// Sentences of 5 to 8 tokens that count upwards, so that a masked token can be told from its neighbours.
struct sentences {
  integers tokens, lengths, labels;
  explicit sentences(int count) {
    for (int i = 0; i < count; ++i) {
      lengths.push_back(5 + i % 4);
      for (int k = 0; k < 8; ++k) {
        bool const padded = k >= lengths.back();
        tokens.push_back(padded ? 0 : (i * 3 + k) % 10 + 1),
            labels.push_back(padded ? ct::ignored_label : tokens.back());
      }
    }
  }
  examples plain() const { return {{tokens, lengths}, labels}; }
  examples all() const { return plain().with_masks(masks); }
};

} // namespace

TEST_CASE("batches of masked examples have other masks in every epoch, and the same in every run") {
  sentences const s(8); // one batch an epoch
  trainer t({}, {.seed = 1}), other({}, {.seed = 1});
  std::set<integers> seen;
  auto same = other.batches(s.all());
  auto again = same.begin();
  int epoch = 0;
  for (auto const& b : t.batches(s.all())) {
    if (epoch == 4) break;
    integers const inputs(b.inputs.begin(), b.inputs.end()), labels(b.labels.begin(), b.labels.end());
    CHECK(inputs == integers((*again).inputs.begin(), (*again).inputs.end()));
    std::int64_t valid = 0;
    for (std::size_t row = 0; row < 8; ++row) {
      // Which example it is: rows are unmasked by their labels.
      int candidates = 0, chosen = 0;
      for (std::size_t k = 0; k < 8; ++k) {
        chosen += labels[8 * row + k] != ct::ignored_label;
        candidates += inputs[8 * row + k] != 0 || labels[8 * row + k] != ct::ignored_label;
      }
      CHECK(chosen == ct::data::count_masked(masks, candidates));
      valid += chosen;
    }
    CHECK(b.valid_labels == valid);
    seen.insert(labels);
    ++epoch, ++again;
  }
  CHECK(seen.size() == 4);
  CHECK(s.all().fingerprint() != examples({s.tokens, s.lengths}, s.labels).fingerprint());
  auto how = masks;
  how.seed = 6;
  CHECK(s.all().fingerprint() != s.plain().with_masks(how).fingerprint());
}

TEST_CASE("an example keeps its masks when the examples are split, and an evaluation repeats them") {
  sentences const s(24);
  auto const all = s.all();
  trainer t({}, {.seed = 1});
  CHECK(t.evaluate(all).loss == t.evaluate(all).loss);
  auto const parts = all.split(0.25);
  REQUIRE(parts.train.masks() == masks);
  auto const a = t.evaluate(parts.train), b = t.evaluate(parts.validation), whole = t.evaluate(all);
  CHECK(a.tokens + b.tokens == whole.tokens);
  CHECK((a.loss * double(a.tokens) + b.loss * double(b.tokens)) / double(whole.tokens) ==
        doctest::Approx(whole.loss).epsilon(1e-5));
}

TEST_CASE("a masked run that is resumed in the middle of an epoch writes the same bytes") {
  sentences const s(37); // 4.6 steps an epoch
  auto const all = s.all();
  temporary_directory const directory;
  ct::run_options const run{.seed = 4};
  trainer whole({.learning_rate = 1e-2f}, run);
  ct::fit(whole, all, {.steps = 11, .directory = directory / "whole", .log = nullptr});
  trainer first({.learning_rate = 1e-2f}, run);
  ct::fit(first, all, {.steps = 7, .directory = directory / "parts", .log = nullptr});
  trainer second({.learning_rate = 1e-2f});
  REQUIRE(second.resume(directory / "parts", nullptr));
  ct::fit(second, sentences(37).all(), {.steps = 11, .directory = directory / "parts", .log = nullptr});
  for (auto const* const name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    CAPTURE(name);
    auto const bytes = read_file(directory / ("whole/" + std::string(name)));
    CHECK(!bytes.empty());
    CHECK(bytes == read_file(directory / ("parts/" + std::string(name))));
  }
}

TEST_CASE("a model learns to fill in masked tokens") {
  sentences const s(80);
  auto const parts = s.all().split(0.1);
  trainer t({.learning_rate = 1e-2f}, {.seed = 2});
  auto const before = t.evaluate(parts.validation);
  auto const r = ct::fit(t, parts.train, {.steps = 150, .validation = &parts.validation, .log = nullptr});
  REQUIRE(r.validation.has_value());
  CHECK(r.validation->loss < before.loss / 3);
  CHECK(r.validation->accuracy > 0.6); // at random, 0.1
}

TEST_CASE("examples whose labels are not their tokens cannot be masked") {
  sentences const s(8);
  trainer t;
  auto how = masks;
  how.vocabulary = 13;
  CHECK(sentence([&] { t.evaluate(s.plain().with_masks(how)); }) ==
        "evaluate: the masking has a .vocabulary of 13, but the input \"tokens\" takes tokens below 12; give a "
        ".vocabulary of at most 12");
  CHECK(sentence([&] { s.plain().with_masks({}); }).starts_with("masking: .vocabulary is 0"));
  CHECK(sentence([&] { s.all().with_masks(masks); }).starts_with("with_masks: the examples are already masked;"));
  auto others = s.labels;
  others[3 * 8 + 2] = 10;
  others[0] = ct::ignored_label;
  CHECK(sentence([&] {
          t.evaluate(examples({s.tokens, s.lengths}, others).with_masks(masks));
        }) ==
        "evaluate: the examples are masked, but the label \"labels\" of example 3 is 10 at position 2, where the token "
        "is " +
            std::to_string(s.tokens[3 * 8 + 2]) + "; pass the tokens as labels");
  CHECK(sentence([&] {
          examples({s.tokens, s.lengths}, s.labels, ct::labels::shift).with_masks(masks);
        }).starts_with("with_masks: the examples have labels::shift"));
  ct::trainer<ct::task<classifier{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 8}>> u;
  integers const classes(8);
  CHECK(
      sentence([&] {
        u.evaluate(examples({s.tokens, s.lengths}, classes).with_masks(masks));
      })
          .starts_with("evaluate: the examples are masked, but the label \"labels\" has 1 element of type i32 for the "
                       "8 of type i32 of the input \"tokens\"; pass the tokens as labels"));
}
