#include "op/own_setting.hpp"
#include "sentence.hpp"
#include "temporary_directory.hpp"

#include <doctest/doctest.h>

#include <limits>

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
        "set: the model has no setting factor; its settings are inner_factor, head_factor, clip_norm");
  CHECK(sentence([&] { t.setting("factor"); }) ==
        "setting: the model has no setting factor; its settings are inner_factor, head_factor, clip_norm");
  CHECK(sentence([&] { t.set("head_factor", std::numeric_limits<double>::infinity()); }) ==
        "set: the setting head_factor is inf; give a finite number");
  CHECK(t.setting("head_factor") == 1);
  ct::trainer<ct::task<ct::gpt2{.layers = 1, .heads = 1, .width = 8, .vocabulary = 32, .context = 8}, ct::causal_lm,
                       ct::micro_batch{}>>
      none;
  CHECK(sentence([&] { none.set("factor", 1); }) ==
        "set: the model has no setting factor; its settings are dropout, clip_norm");
}
