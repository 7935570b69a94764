#include "sentence.hpp"

#include <constrain/constrain.hpp>
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

// Models with several inputs, real inputs and real labels.

namespace ct = constrain;
using ct::test::sentence;

namespace {

// Tokens and their types, and one number of another table for each sequence.
struct three_inputs {
  static constexpr ct::port_spec inputs[] = {
      {.name = "tokens"}, {.name = "segments"}, {.name = "topic", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value tokens, ct::value segments, ct::value topic) const {
    auto x = ct::embedding("token", tokens, {.vocabulary = 11, .width = 6}) +
             ct::embedding("segment", segments, {.vocabulary = 2, .width = 6});
    auto const pooled = ct::mean(ct::gelu(x), ct::axis::tokens);
    return ct::linear("head", pooled + ct::embedding("topic", topic, {.vocabulary = 3, .width = 6}), 4);
  }
};
using task = ct::task<three_inputs{}, ct::classification, ct::micro_batch{.sequences = 2, .tokens = 3}>;
using trainer = ct::trainer<task, ct::accumulate<2>>;
using integers = std::vector<std::int32_t>;

struct arrays {
  integers tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0}, segments{0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1}, topic{0, 1, 2, 1},
      labels{3, 1, 0, 2};
};

// The inputs are a function of the configuration.
struct mlp {
  int features, hidden;
  constexpr auto inputs() const {
    return std::array{ct::port_spec{
        .name = "features", .type = ct::port_type::real, .each = ct::per::sequence, .features = features}};
  }
  constexpr ct::value operator()(ct::value x) const {
    return ct::linear("out", ct::gelu(ct::linear("hidden", x, hidden)), 1);
  }
};
using regression = ct::task<mlp{.features = 3, .hidden = 16}, ct::mean_squared_error, ct::micro_batch{.sequences = 8}>;

// A weight for each target beside it: the labels of this objective are two arrays.
struct weighted_error {
  static constexpr std::array<ct::port_spec, 2> labels() {
    return {{{.name = "targets", .type = ct::port_type::real, .each = ct::per::logit},
             {.name = "weights", .type = ct::port_type::real, .each = ct::per::sequence, .features = 1}}};
  }
  constexpr ct::value operator()(ct::value prediction, ct::value targets, ct::value weights) const {
    return ct::squared_error(prediction * weights, targets * weights);
  }
};
using weighted = ct::task<mlp{.features = 3, .hidden = 16}, weighted_error, ct::micro_batch{.sequences = 8}>;

struct points {
  std::vector<float> x, y;
  points() {
    for (int i = 0; i < 8; ++i) {
      for (int k = 0; k < 3; ++k) x.push_back(static_cast<float>(std::sin(1 + i * 3 + k)));
      y.push_back(x[x.size() - 3] * x[x.size() - 2] + 0.5f * x.back());
    }
  }
};

// Labels of classes, and labels that choose a row of a table: only the former can be ignored.
struct grouped_classes {
  static constexpr ct::port_spec labels[] = {{.name = "classes", .each = ct::per::row},
                                             {.name = "groups", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value logits, ct::value classes, ct::value groups) const {
    return ct::cross_entropy(logits + ct::embedding("group", groups, {.vocabulary = 4, .width = 1}), classes);
  }
};
using grouped = ct::task<mlp{.features = 1, .hidden = 2}, grouped_classes, ct::micro_batch{.sequences = 2}>;

// Labels that a loss ignores and an embedding indexes by; labels that no op reads.
struct labels_of_two_ops {
  static constexpr ct::port_spec labels[] = {{.name = "both", .each = ct::per::row},
                                             {.name = "unread", .each = ct::per::sequence}};
  constexpr ct::value operator()(ct::value logits, ct::value both, ct::value) const {
    return ct::focal_loss(logits + ct::embedding("own", both, {.vocabulary = 4, .width = 1}), both);
  }
};
using two_ops = ct::task<mlp{.features = 1, .hidden = 2}, labels_of_two_ops, ct::micro_batch{.sequences = 2}>;

// Two decisions of three classes for each token.
struct decisions {
  constexpr ct::value operator()(ct::value tokens) const {
    auto const x = ct::embedding("token", tokens, {.vocabulary = 9, .width = 6});
    return ct::reshape(x, ct::shape(x.shape().extent[0], x.shape().extent[1], 2, 3));
  }
};
using two_decisions = ct::task<decisions{}, ct::classification, ct::micro_batch{.sequences = 4, .tokens = 3}>;

} // namespace

TEST_CASE("ports: the plan has every input and label, with its limit") {
  auto const& plan = trainer::entries::step::value;
  auto const input = [&](int i) { return plan.nth(ct::port_kind::input, i); };
  CHECK(std::string(input(1).spec.name) == "segments");
  CHECK(input(0).limit == 11);
  CHECK(input(1).limit == 2);
  CHECK(input(2).limit == 3);
  CHECK(input(0).view.elements == 12); // of both micro-batches
  CHECK(input(2).view.elements == 4);
  CHECK(plan.nth(ct::port_kind::label, 0).limit == 4);
  CHECK(plan.nth(ct::port_kind::input, 3).elements == 0);
  CHECK(plan.result("loss").type == ct::dtype::f64);
  CHECK(trainer::entries::evaluate::value.result("correct").elements == 1);
}

TEST_CASE("ports: every input counts, in training, evaluation and prediction") {
  arrays a;
  trainer t{{.learning_rate = 3e-2f}, {.seed = 1, .checked = true}};
  double const first = t.step(t.batch({a.tokens, a.segments, a.topic}, a.labels)).loss;
  for (int i = 0; i < 60; ++i) t.step(t.batch({a.tokens, a.segments, a.topic}, a.labels));
  auto const e = t.evaluate({a.tokens, a.segments, a.topic}, a.labels);
  CHECK(e.loss < first / 4);
  CHECK(e.accuracy == 1);
  CHECK(e.tokens == 4);
  auto const predict = [&](arrays const& of) {
    return t.predict({std::span(of.tokens).first(6), std::span(of.segments).first(6), std::span(of.topic).first(2)})
        .logits;
  };
  auto const before = predict(a);
  CHECK(before.size() == 8);
  for (auto member : {&arrays::tokens, &arrays::segments, &arrays::topic}) {
    arrays other;
    (other.*member)[1] = (other.*member)[1] == 0 ? 1 : 0;
    CHECK(predict(other) != before);
  }
}

TEST_CASE("ports: micro-batches are cut along each port's own length") {
  arrays a;
  ct::trainer<task, ct::precision::fp64> one;
  ct::trainer<task, ct::precision::fp64, ct::accumulate<2>> two;
  CHECK(std::abs(two.step(two.batch({a.tokens, a.segments, a.topic}, a.labels)).loss -
                 one.evaluate({a.tokens, a.segments, a.topic}, a.labels).loss) < 1e-12);
}

TEST_CASE("ports: arrays that do not fit are named") {
  arrays a;
  trainer t;
  CHECK(sentence([&] { t.batch(a.tokens, a.labels); }) ==
        "batch: 1 input was given, but the model takes 3 (tokens, segments, topic); pass a list of one array for "
        "each, {tokens, segments, topic}");
  CHECK(sentence([&] {
          t.batch({a.tokens, a.segments, a.topic}, {a.labels, a.labels});
        }) ==
        "batch: 2 labels were given, but the objective takes 1 (labels); pass a list of one array for each, {labels}");
  CHECK(sentence([&] {
          t.batch({a.tokens, a.segments, a.labels, a.topic, a.topic}, a.labels);
        }).starts_with("batch: 5 inputs were given"));
  CHECK(sentence([&] {
          t.batch({a.tokens, a.segments, std::span(a.topic).first(2)}, a.labels);
        }) ==
        "batch: the input \"topic\" has 2 elements, but must have 4 ([micro-batches, sequences]); pass an array of "
        "that length");
  std::vector<std::int32_t> const twelve(12), two(2);
  CHECK(sentence([&] { ct::trainer<two_decisions>().batch(twelve, two); }) ==
        "batch: the array of labels has 2 elements, but must have 24 ([micro-batches, the dimensions of the logits "
        "without the last]); pass an array of that length");
  CHECK(sentence([&] {
          t.predict({a.tokens, a.segments, a.topic});
        }) ==
        "predict: the array of inputs has 12 elements, but must have 6 ([sequences, tokens]); pass an array of that "
        "length");
  CHECK(sentence([&] {
          t.batch({a.tokens, std::vector<float>(12), a.topic}, a.labels);
        }) ==
        "batch: the input \"segments\" must hold integers, but the array given for it has elements of type float; pass "
        "an array of std::int32_t");
  a.segments[5] = 2;
  CHECK(sentence([&] {
          t.batch({a.tokens, a.segments, a.topic}, a.labels);
        }) == "batch: the input \"segments\" is 2 at index 5, outside [0, 2); pass integers from 0 to 1");
  CHECK(sentence([&] {
          t.evaluate({a.tokens, a.segments, a.topic}, a.labels);
        }).starts_with("evaluate: the input \"segments\" is 2 at index 5"));
  CHECK(sentence([&] {
          t.evaluate({a.tokens, std::span(a.segments).first(6), a.topic}, a.labels);
        }) ==
        "evaluate: the input \"segments\" has 6 elements, but must have 12 for the inputs' 2 micro-batches; pass 12");
  arrays later; // changed between batch and step
  auto const b = t.batch({later.tokens, later.segments, later.topic}, later.labels);
  later.topic[3] = -1;
  CHECK(sentence([&] { t.step(b); }) ==
        "step: the input \"topic\" is -1 at index 3, outside [0, 3); pass integers from 0 to 2");
  ct::trainer<task> other;
  CHECK(sentence([&] {
          other.step(b);
        }).starts_with("step: the first input of the batch has 12 elements and the first label 4, but this trainer"));
  CHECK(t.steps() == 0);
}

TEST_CASE_TEMPLATE("ports: a model with real inputs and labels learns a function", precision, ct::precision::fp32,
                   ct::precision::fp64, ct::precision::bf16, ct::precision::fp16) {
  points const p;
  ct::trainer<regression, precision> t{{.learning_rate = 2e-2f}, {.seed = 3, .checked = true}};
  double const first = t.step(t.batch(p.x, p.y)).loss;
  for (int i = 0; i < 300; ++i) t.step(t.batch(p.x, p.y));
  auto const e = t.evaluate(p.x, p.y);
  CHECK(e.loss < first / 50);
  CHECK(e.tokens == 8);
  CHECK(std::isnan(e.accuracy));
  CHECK(std::isnan(e.perplexity));
  auto const y = t.predict(p.x);
  CHECK(y.shape == ct::shape(8, 1));
  double sum = 0;
  for (std::size_t i = 0; i < 8; ++i)
    sum += std::pow(static_cast<double>(y.logits[i]) - static_cast<double>(p.y[i]), 2);
  CHECK(std::abs(sum / 8 - e.loss) < 1e-6);
}

TEST_CASE("ports: an objective of several labels") {
  points const p;
  std::vector<double> ones(8, 1), first_only(8);
  first_only[0] = 1;
  ct::trainer<weighted, ct::precision::fp64> t, only;
  ct::trainer<regression, ct::precision::fp64> plain;
  CHECK(t.step(t.batch(p.x, {p.y, ones})).loss == plain.step(plain.batch(p.x, p.y)).loss);
  auto const y = only.predict(p.x).logits;
  double const error = y[0] - static_cast<double>(p.y[0]);
  CHECK(std::abs(only.evaluate(p.x, {p.y, first_only}).loss - error * error / 8) < 1e-12);
  CHECK(sentence([&] { t.batch(p.x, p.y); }) ==
        "batch: 1 label was given, but the objective takes 2 (targets, weights); pass a list of one array for each, "
        "{targets, weights}");
}

TEST_CASE_TEMPLATE("ports: an objective multiplies 16-bit predictions with fp32 labels", precision, ct::precision::bf16,
                   ct::precision::fp16) {
  points const p;
  std::vector<float> weights(8, 1);
  weights[3] = 4;
  ct::trainer<weighted, precision> narrow{{.learning_rate = 2e-2f},
                                          {.seed = 3, .loss_scale = {.initial = 256}, .checked = true}};
  ct::trainer<weighted> wide{{.learning_rate = 2e-2f}, {.seed = 3}};
  double const within = std::is_same_v<precision, ct::precision::fp16> ? 1e-2 : 6e-2;
  for (int i = 0; i < 30; ++i) {
    auto const a = narrow.step(narrow.batch(p.x, {p.y, weights})), b = wide.step(wide.batch(p.x, {p.y, weights}));
    CHECK(!a.skipped);
    CHECK(a.loss == doctest::Approx(b.loss).epsilon(within));
  }
  // The product is f32: it holds a label that is not representable in 16 bits.
  std::vector<float> far(8, 70001);
  auto const y = narrow.predict(p.x).logits;
  double expected = 0;
  for (float x : y) expected += std::pow(70001.0 - static_cast<double>(x), 2) / 8;
  CHECK(narrow.evaluate(p.x, {far, std::vector<float>(8, 1)}).loss == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("ports: a label that an op indexes by cannot be ignored") {
  std::vector<float> const x{1, 2};
  integers const good{0, 0}, ignored{0, ct::ignored_label};
  ct::trainer<grouped> t;
  for (auto const& [where, said] : {std::pair{"batch", sentence([&] {
                                                t.batch(x, {good, ignored});
                                              })},
                                    std::pair{"evaluate", sentence([&] {
                                                t.evaluate(x, {good, ignored});
                                              })}})
    CHECK(said == std::string(where) +
                      ": the label \"groups\" is -100 at index 1, but an op indexes by it, so it cannot be ignored; "
                      "pass integers from 0 to 3");
  CHECK(sentence([&] {
          t.batch(x, {good, integers{0, 4}});
        }) == "batch: the label \"groups\" is 4 at index 1, outside [0, 4); pass integers from 0 to 3");
  CHECK(
      sentence([&] {
        t.batch(x, {integers{0, 1}, good});
      }) ==
      "batch: the label \"classes\" is 1 at index 1, outside [0, 1); pass integers from 0 to 0, or -100 to ignore one");
  CHECK(t.step(t.batch(x, {ignored, good})).tokens == 1);
  integers later{0, 0}; // changed between batch and step
  auto const b = t.batch(x, {good, later});
  later[0] = ct::ignored_label;
  CHECK(sentence([&] { t.step(b); }).starts_with("step: the label \"groups\" is -100 at index 0, but an op indexes"));
  ct::trainer<two_ops> u;
  CHECK(sentence([&] {
          u.batch(x, {ignored, good});
        }).starts_with("batch: the label \"both\" is -100 at index 1, but"));
}

TEST_CASE("ports: labels without a limit are integers from 0 on") {
  std::vector<float> const x{1, 2};
  integers const good{0, 0}, negative{0, -5};
  ct::trainer<two_ops> t;
  t.batch(x, {good, integers{std::numeric_limits<std::int32_t>::max(), ct::ignored_label}});
  CHECK(sentence([&] {
          t.batch(x, {good, negative});
        }) == "batch: the label \"unread\" is -5 at index 1, below 0; pass integers from 0, or -100 to ignore one");
  CHECK(sentence([&] {
          t.batches(ct::data::examples(x, {good, negative}));
        }) ==
        "batches: the label \"unread\" of example 1 is -5 at position 0, below 0; pass integers from 0, or -100 to "
        "ignore one");
}

TEST_CASE("ports: float and double arrays of the same numbers are the same data") {
  points const p;
  std::vector<double> const x(p.x.begin(), p.x.end()), y(p.y.begin(), p.y.end());
  ct::trainer<regression> a, b;
  CHECK(a.step(a.batch(p.x, p.y)).loss == b.step(b.batch(x, y)).loss);
  ct::trainer<regression, ct::precision::fp64> c, d;
  CHECK(c.step(c.batch(p.x, y)).loss == d.step(d.batch(x, p.y)).loss);
}

TEST_CASE("ports: wrong reals are named") {
  points p;
  ct::trainer<regression> t;
  CHECK(
      sentence([&] { t.batch(integers(24), p.y); }) ==
      "batch: the input \"features\" must hold floating-point numbers, but the array given for it has elements of type "
      "std::int32_t; pass an array of float or double");
  CHECK(sentence([&] { t.batch(p.y, p.y); }) ==
        "batch: the input \"features\" has 8 elements, but must have 24 ([micro-batches, sequences, 3]); pass an "
        "array of that length");
  CHECK(sentence([&] { t.batch(p.x, p.x); }) ==
        "batch: the label \"targets\" has 24 elements, but must have 8 ([micro-batches, the dimensions of the "
        "logits]); pass an array of that length");
  CHECK(sentence([&] { t.evaluate(std::span(p.x).first(5), p.y); }) ==
        "evaluate: the input \"features\" has 5 elements, but must have a positive multiple of the micro-batch's 24; "
        "pass complete micro-batches");
  CHECK(sentence([&] { t.batch(p.x, p.y, ct::labels::shift); }).starts_with("batch: ct::labels::shift is for labels"));
  p.y[6] = std::numeric_limits<float>::quiet_NaN();
  CHECK(sentence([&] { t.batch(p.x, p.y); }) == "batch: the label \"targets\" is not finite at index 6; pass finite "
                                                "numbers, for example 0 where a value is missing");
}

TEST_CASE("ports: reals beyond the range of the stored type are named") {
  points p;
  ct::trainer<regression, ct::precision::fp16> half;
  ct::trainer<regression, ct::precision::bf16> brain;
  ct::trainer<regression> single;
  ct::trainer<regression, ct::precision::fp64> wide;
  p.x[7] = -1e6f;
  std::string const after = "; pass smaller magnitudes, for example numbers divided by their standard deviation";
  CHECK(sentence([&] { half.batch(p.x, p.y); }) ==
        "batch: the input \"features\" is -1000000 at index 7, but f16 holds only magnitudes up to 65504" + after);
  CHECK(sentence([&] { half.evaluate(p.x, p.y); }).starts_with("evaluate: the input \"features\" is -1000000"));
  CHECK(sentence([&] { half.predict(p.x); }).starts_with("predict: the input \"features\" is -1000000"));
  brain.batch(p.x, p.y), single.batch(p.x, p.y);
  // The boundary is where numbers round to infinity, after a rounding to float.
  p.x[7] = std::nextafter(65520.0f, 0.0f);
  half.batch(p.x, p.y);
  std::vector<double> x(p.x.begin(), p.x.end());
  x[7] = 65519.99999;
  CHECK(sentence([&] { half.batch(x, p.y); }).find(" is 65519.99999 at index 7, but f16 holds") != std::string::npos);
  p.x[7] = std::numeric_limits<float>::max();
  CHECK(sentence([&] { brain.batch(p.x, p.y); }) ==
        "batch: the input \"features\" is 3.40282347e+38 at index 7, but bf16 holds only magnitudes up to "
        "3.38953139e+38" +
            after);
  single.batch(p.x, p.y);
  p.x[7] = 1;
  std::vector<double> y(p.y.begin(), p.y.end());
  y[2] = 1e39;
  for (auto const& said : {sentence([&] { single.batch(p.x, y); }), sentence([&] { half.batch(p.x, y); })})
    CHECK(said ==
          "batch: the label \"targets\" is 1e+39 at index 2, but f32 holds only magnitudes up to 3.40282347e+38" +
              after);
  wide.batch(p.x, y);
}
