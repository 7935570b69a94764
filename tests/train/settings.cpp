#include "op/own_setting.hpp"
#include "saved/change_tensors.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

namespace ct = constrain;
using namespace constrain::test;

namespace {

struct model {
  int layers = 3;
  int context = 8;

  constexpr ct::value operator()(ct::value tokens) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 32, .width = 8});
    x = ct::repeat("block", layers, x,
                   [](ct::value y) { return y + scaled(ct::linear("inner", y, 8), "inner_factor", 0.5); });
    return scaled(ct::linear("head", x, 32), "head_factor", 1);
  }
};
using task = ct::task<model{}, ct::causal_lm, ct::micro_batch{.sequences = 2}>;
template <class... policies> using trainer = ct::trainer<task, policies...>;

std::vector<std::int32_t> const inputs{1, 5, 3, 7, 9, 11, 2, 4, 8, 16, 31, 30, 29, 1, 2, 3};
std::vector<std::int32_t> const labels{5, 3, 7, 9, 11, 2, 4, 8, 16, 31, 30, 29, 1, 2, 3, 5};

template <class trainer> std::vector<float> logits(trainer& t) { return t.predict(inputs).logits; }
template <class trainer> double step(trainer& t) { return t.step(t.batch(inputs, labels)).loss; }

/// It has ct::dropout.
template <class... policies>
using gpt2 = ct::trainer<ct::task<ct::gpt2{.layers = 2, .heads = 2, .width = 16, .vocabulary = 32, .context = 8},
                                  ct::causal_lm, ct::micro_batch{.sequences = 2}>,
                         policies...>;
ct::run_options const with_both{.seed = 3, .clip_norm = 0.5, .dropout = 0.2};

/// Writes a saved run again, without its settings: as a version saved it that had none.
void forget_settings(std::string const& from, std::string const& to) {
  change_tensors(from, to, [](std::vector<ct::io::tensor>& tensors) {
    auto const is_setting = [](ct::io::tensor const& t) { return t.name.starts_with("setting."); };
    REQUIRE(std::erase_if(tensors, is_setting) > 0);
  });
}

struct head_only {
  constexpr ct::value operator()(ct::value tokens) const {
    return ct::linear("head", ct::embedding("token", tokens, {.vocabulary = 8, .width = 4}), 8);
  }
};

} // namespace

TEST_CASE("a setting is read by every entry, and changes between steps") {
  trainer<> t, twice;
  CHECK(t.setting("inner_factor") == 0.5);
  CHECK(t.setting("head_factor") == 1);
  auto const before = logits(t);
  t.set("head_factor", 2);
  auto const after = logits(t);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] == 2 * before[i]);
  auto const loss = t.evaluate(inputs, labels).loss;
  CHECK(t.step(t.batch(inputs, labels)).loss == doctest::Approx(loss));
  CHECK(twice.step(twice.batch(inputs, labels)).loss != doctest::Approx(loss));
}

TEST_CASE("a setting gives the same bits under checkpointing and accumulation of one micro-batch") {
  trainer<> plain;
  trainer<ct::checkpoint::every<2>> again;
  for (int i = 0; i < 4; ++i) {
    plain.set("inner_factor", 0.25 * i), again.set("inner_factor", 0.25 * i);
    CHECK(plain.step(plain.batch(inputs, labels)).loss == again.step(again.batch(inputs, labels)).loss);
  }
  CHECK(logits(plain) == logits(again));
}

TEST_CASE("settings are saved and resumed") {
  temporary_directory const directory;
  trainer<> t;
  t.set("inner_factor", -3);
  t.step(t.batch(inputs, labels));
  t.save(directory / "run");
  trainer<> resumed;
  resumed.load(directory / "run");
  CHECK(resumed.setting("inner_factor") == -3);
  CHECK(resumed.setting("head_factor") == 1);
  CHECK(resumed.step(resumed.batch(inputs, labels)).loss == t.step(t.batch(inputs, labels)).loss);
  CHECK(logits(resumed) == logits(t));
}

TEST_CASE("an unknown setting and a value that is no number are refused; nothing changes") {
  trainer<> t;
  CHECK(sentence([&] { t.set("factor", 1); }) ==
        "set: the model has no setting 'factor'; its settings: inner_factor, head_factor, clip_norm");
  CHECK(sentence([&] { t.setting("factor"); }) ==
        "setting: the model has no setting 'factor'; its settings: inner_factor, head_factor, clip_norm");
  CHECK(sentence([&] { t.set("head_factor", std::numeric_limits<double>::infinity()); }) ==
        "set: the setting head_factor is inf; give a finite number");
  CHECK(t.setting("head_factor") == 1);
  ct::trainer<ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 32, .context = 8}, ct::causal_lm,
                       ct::micro_batch{}>>
      none;
  CHECK(sentence([&] { none.set("factor", 1); }) ==
        "set: the model has no setting 'factor'; its settings: dropout, clip_norm");
  ct::inference<ct::task<head_only{}, ct::causal_lm, ct::micro_batch{.sequences = 1, .tokens = 4}>> forward;
  CHECK(sentence([&] { forward.setting("clip_norm"); }) ==
        "setting: the model has no setting 'clip_norm'; its settings: none");
}

TEST_CASE("dropout and clip_norm begin as the run's options say, and change between steps") {
  gpt2<> t({}, with_both), plain({}, {.seed = 3}), later({}, {.seed = 3});
  CHECK(t.setting("dropout") == 0.2);
  CHECK(t.setting("clip_norm") == 0.5);
  CHECK(plain.setting("dropout") == 0);
  CHECK(plain.setting("clip_norm") == 0);
  CHECK(step(t) != step(plain));
  CHECK(t.evaluate(inputs, labels).loss != plain.evaluate(inputs, labels).loss);
  later.set("dropout", 0.2), later.set("clip_norm", 0.5);
  gpt2<> begun({}, with_both);
  for (int i = 0; i < 3; ++i) CHECK(step(later) == step(begun));
  CHECK(logits(later) == logits(begun));
  // Without dropout, the losses of a step and of an evaluation are the same.
  later.set("dropout", 0);
  auto const loss = later.evaluate(inputs, labels).loss;
  CHECK(step(later) == doctest::Approx(loss));
}

TEST_CASE("the clip norm is that of the step in which it is set") {
  gpt2<ct::optimizer::sgd> t({.learning_rate = 1}, {.seed = 3}), unclipped({.learning_rate = 1}, {.seed = 3});
  t.set("clip_norm", 1e-30);
  auto const before = logits(t);
  step(t), step(unclipped);
  CHECK(logits(t) == before); // such small updates change no bit
  t.set("clip_norm", 0);
  step(t);
  CHECK(logits(t) == logits(unclipped));
}

TEST_CASE_TEMPLATE("dropout and clip_norm are saved and resumed", type, gpt2<>, gpt2<ct::precision::fp16>,
                   gpt2<ct::accumulate<1>, ct::checkpoint::every<1>>) {
  temporary_directory const directory;
  type t({}, {.seed = 3}), resumed({}, {.seed = 4, .clip_norm = 7, .dropout = 0.7});
  t.set("dropout", 0.3), t.set("clip_norm", 0.25);
  step(t);
  t.save(directory / "run");
  resumed.load(directory / "run");
  CHECK(resumed.setting("dropout") == 0.3);
  CHECK(resumed.setting("clip_norm") == 0.25);
  for (int i = 0; i < 3; ++i) CHECK(step(resumed) == step(t));
  CHECK(logits(resumed) == logits(t));
}

TEST_CASE("a run that was saved without settings takes those of the trainer") {
  temporary_directory const directory;
  gpt2<> t({}, with_both), resumed({}, with_both), other({}, {.seed = 3, .clip_norm = 0.5});
  step(t);
  t.save(directory / "run");
  forget_settings(directory / "run", directory / "old");
  resumed.load(directory / "old"), other.load(directory / "old");
  CHECK(resumed.setting("dropout") == 0.2);
  CHECK(resumed.setting("clip_norm") == 0.5);
  CHECK(other.setting("dropout") == 0);
  CHECK(step(resumed) == step(t));
  CHECK(logits(resumed) == logits(t));
  CHECK(step(other) != step(t));
}

TEST_CASE("dropout and clip_norm have ranges") {
  gpt2<> t({}, with_both);
  CHECK(sentence([&] { t.set("dropout", 1); }) ==
        "set: the setting dropout is 1; give a number of at least 0 and below 1");
  CHECK(sentence([&] { t.set("clip_norm", -1); }) ==
        "set: the setting clip_norm is -1; give a finite number of at least 0");
  CHECK(t.setting("dropout") == 0.2);
  CHECK(t.setting("clip_norm") == 0.5);
  // A model without ct::dropout has no such setting.
  trainer<> without({}, {.clip_norm = 0.5});
  CHECK(sentence([&] { without.set("dropout", 0); }) ==
        "set: the model has no setting 'dropout'; its settings: inner_factor, head_factor, clip_norm");
}

TEST_CASE("the number of labels belongs to a run: it is neither set nor saved") {
  trainer<> t;
  CHECK(sentence([&] { t.set("inverse_label_count", 1); }) ==
        "set: the model has no setting 'inverse_label_count'; its settings: inner_factor, head_factor, clip_norm");
  CHECK(sentence([&] { t.setting("inverse_label_count"); }) ==
        "setting: the model has no setting 'inverse_label_count'; its settings: inner_factor, head_factor, clip_norm");
  // Steps and evaluations of other numbers of labels do not disturb each other.
  auto few = labels;
  for (std::size_t i = 1; i < few.size(); ++i) few[i] = ct::ignored_label;
  auto const all = t.evaluate(inputs, labels).loss, one = t.evaluate(inputs, few).loss;
  CHECK(t.evaluate(inputs, labels).loss == all);
  CHECK(all != one);
  trainer<> same;
  CHECK(same.step(same.batch(inputs, few)).loss == doctest::Approx(one));
  CHECK(step(t) == doctest::Approx(all));
}

TEST_CASE("dropout of a model without ct::dropout is refused") {
  using without = ct::trainer<ct::task<head_only{}, ct::causal_lm, ct::micro_batch{.sequences = 2, .tokens = 8}>>;
  CHECK(sentence([] { without({}, {.dropout = 0.25}); }) ==
        "run_options: .dropout is 0.25, but the model has no ct::dropout; add it to the model, or leave .dropout at 0");
  CHECK(sentence([] { without({}, {.dropout = 0}); }) == "");
  CHECK(sentence([] { gpt2<>({}, {.dropout = 0.25}); }) == "");
  CHECK(sentence([] { ct::inference<typename gpt2<>::task>({.dropout = 0.25}); }) == "");
}
