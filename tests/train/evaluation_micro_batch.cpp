#include "../sentence.hpp"
#include "../temporary_directory.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

// A micro-batch of `evaluate` with another number of sequences than that of a step.

namespace ct = constrain;
using ct::data::examples;
using ct::test::sentence, ct::test::temporary_directory;

namespace {

using integers = std::vector<std::int32_t>;

template <int evaluated, int sequences = 2>
using gpt_task = ct::task<ct::gpt2{.layers = 1, .heads = 2, .width = 16, .vocabulary = 256, .context = 8},
                          ct::causal_lm, ct::micro_batch{.sequences = sequences, .evaluation_sequences = evaluated}>;

struct classifier {
  static constexpr ct::port_spec inputs[] = {{.name = "tokens"}, {.name = "lengths", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value lengths) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 10, .width = 6});
    auto const y = ct::self_attention(ct::linear("qkv", x, 18), lengths, {.heads = 1, .causal = false});
    return ct::linear("head", ct::select_token(y, 0), 3);
  }
};
template <int evaluated>
using class_task = ct::task<classifier{}, ct::classification,
                            ct::micro_batch{.sequences = 4, .tokens = 4, .evaluation_sequences = evaluated}>;

// A class, which may be unknown, and real targets: a sample cannot be padded.
struct class_and_targets {
  static constexpr ct::port_spec labels[] = {{.name = "classes", .each = ct::per::row},
                                             {.name = "targets", .type = ct::port_type::real, .each = ct::per::logit}};
  constexpr ct::value operator()(ct::value logits, ct::value classes, ct::value targets) const {
    return ct::cross_entropy(logits, classes) + ct::squared_error(logits, targets);
  }
};
struct three_logits {
  static constexpr ct::port_spec inputs[] = {
      {.name = "x", .type = ct::port_type::real, .each = ct::per::sequence, .features = 2}};
  constexpr ct::value operator()(ct::value x) const { return ct::linear("out", x, 3); }
};

ct::data::corpus corpus() {
  std::string text;
  for (int i = 0; i < 25 * 8 + 3; ++i) text += static_cast<char>(i * 37 % 251);
  return ct::data::corpus::from_bytes(text);
}

struct arrays {
  integers tokens, lengths, labels;
  explicit arrays(int count) {
    for (int i = 0; i < count; ++i) {
      lengths.push_back(1 + i % 4), labels.push_back(i % 5 == 4 ? ct::ignored_label : i * 7 % 3);
      for (int k = 0; k < 4; ++k) tokens.push_back((i * 3 + k * i) % 10);
    }
  }
  examples all() const { return {{tokens, lengths}, labels}; }
};

/// Compares a trainer with `evaluated` sequences in an evaluation with one that has as many as in a step.
template <int evaluated> void compare_with_default() {
  CAPTURE(evaluated);
  auto const text = corpus();
  ct::trainer<gpt_task<evaluated>> t({}, {.seed = 1});
  ct::trainer<gpt_task<0>> plain({}, {.seed = 1});
  auto const r = ct::fit(t, text, {.steps = 3, .validation = &text, .log = nullptr});
  auto const s = ct::fit(plain, text, {.steps = 3, .validation = &text, .log = nullptr});
  CHECK(r.loss == s.loss); // training is the same, bit for bit
  CHECK(r.validation->loss == doctest::Approx(s.validation->loss).epsilon(1e-6));
  CHECK(r.validation->tokens == s.validation->tokens);
  integers const one(16, 3);
  CHECK(t.predict(one).logits == plain.predict(one).logits);

  arrays const a(21);
  ct::trainer<class_task<evaluated>> c({}, {.seed = 1});
  ct::trainer<class_task<0>> other({}, {.seed = 1});
  auto const e = c.evaluate(a.all()), f = other.evaluate(a.all());
  CHECK(e.loss == doctest::Approx(f.loss).epsilon(1e-6));
  CHECK(e.tokens == f.tokens);
  CHECK(e.accuracy == f.accuracy);
  CHECK(e.metric("macro_f1") == f.metric("macro_f1"));
}

static_assert(gpt_task<0>::evaluation_sequences == 2 && gpt_task<5>::evaluation_sequences == 5);

} // namespace

TEST_CASE("the results do not depend on the micro-batch of the evaluation") {
  compare_with_default<1>();
  compare_with_default<3>();
  compare_with_default<16>();
}

TEST_CASE("repeats of a sample do not count if the last label is ignored") {
  std::vector<float> const x{1, 2, 3, 4, 5, 6}, targets{0, 1, 0, 2, 2, 2, 9, 9, 9};
  integers const classes{0, 1, ct::ignored_label};
  auto const loss_of = [&]<int evaluated>(std::integral_constant<int, evaluated>) {
    using task = ct::task<three_logits{}, class_and_targets, ct::micro_batch{.sequences = evaluated}>;
    auto const e = ct::inference<task, ct::precision::fp64>({.seed = 3}).evaluate(examples(x, {classes, targets}));
    CHECK(e.tokens == 2);
    return e.loss;
  };
  auto const all_at_once = loss_of(std::integral_constant<int, 3>());
  CHECK(loss_of(std::integral_constant<int, 2>()) == doctest::Approx(all_at_once).epsilon(1e-12));
  CHECK(loss_of(std::integral_constant<int, 8>()) == doctest::Approx(all_at_once).epsilon(1e-12));
}

TEST_CASE("arrays have the sequences of the evaluation") {
  ct::trainer<gpt_task<3>> t({}, {.seed = 1});
  integers const inputs(3 * 8, 5), labels(3 * 8, 6);
  CHECK(t.evaluate(inputs, labels).tokens == 24);
  integers const two(2 * 8, 5);
  CHECK(
      sentence([&] { t.evaluate(two, two); }) ==
      "evaluate: the array of inputs has 16 elements, but must have a positive multiple of the micro-batch's 24; pass "
      "complete micro-batches, the last one padded with any token and ignored labels");
  CHECK(t.step(t.batch(two, integers(2 * 8, 6))).tokens == 16);
}

TEST_CASE("an inference object evaluates and predicts with its own numbers of sequences") {
  temporary_directory const directory;
  auto const text = corpus();
  ct::trainer<gpt_task<0>> t({}, {.seed = 1});
  ct::fit(t, text, {.steps = 3, .directory = directory / "run", .log = nullptr});
  ct::inference<gpt_task<5>> model;
  model.load_pretrained(directory / "run");
  CHECK(model.evaluate(text).loss == doctest::Approx(t.evaluate(text).loss).epsilon(1e-6));
  integers const one(16, 3);
  auto const y = model.predict(one);
  CHECK(y.shape == ct::shape(2, 8, 256));
  CHECK(y.logits == t.predict(one).logits);
  integers const prompt{1, 2};
  CHECK(model.generate(prompt, 5, {.seed = 2}) == t.generate(prompt, 5, {.seed = 2}));
}

TEST_CASE("a larger micro-batch of the evaluation is part of the memory plan") {
  static_assert(ct::trainer<gpt_task<64>>::memory.peak > ct::trainer<gpt_task<0>>::memory.peak);
  static_assert(ct::trainer<gpt_task<1, 8>>::memory.peak == ct::trainer<gpt_task<0, 8>>::memory.peak);
}
